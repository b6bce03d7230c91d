//! Targets of fuzzing: the input that the command gets from people, files and peers. No input may
//! cause a panic. For leasehold's own tests.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use leasehold::store::fuzzing::Target;

use crate::args::parse;
use crate::commands;
use crate::detached::Handle;
use crate::store_choice;
use crate::store_url::StoreUrl;

/// Every target of the command.
pub const TARGETS: [Target; 4] = [
    ("command_line", command_line),
    ("configuration", configuration),
    ("handle", handle),
    ("http_request", commands::fuzzing::request),
];

/// A command line, with one word on each line.
fn command_line(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let words: Vec<_> = [OsString::from("leasehold")].into_iter().chain(words).collect();
    drop(parse::parse(&words));
}

/// The configuration file and the environment variable that name the store.
fn configuration(bytes: &[u8]) {
    let variable = store_choice::by_variable(&OsString::from_vec(bytes.to_vec()));
    let file =
        std::str::from_utf8(bytes).ok().map(|text| store_choice::by_configuration(text, "/"));
    for choice in [Some(variable), file].into_iter().flatten() {
        match choice {
            Ok(choice) => assert!(!choice.url.to_string().is_empty()),
            Err(failure) => assert!(!failure.message.is_empty()),
        }
    }
}

/// A handle of `take`, real or forged.
fn handle(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(handle) = Handle::decode(text) {
        let again = handle.encode().and_then(|text| Handle::decode(&text));
        assert_eq!(again.as_ref(), Ok(&handle));
        // A forged handle must lead to no file, no socket and no login of this machine.
        if let Some(remote) = StoreUrl::from(handle.store.as_str()).remote() {
            let url = remote.reveal();
            assert!(remote.is_on_servers() && !url.contains('@') && !url.contains("+unix:"));
            assert!(["ca=", "cert=", "key="].iter().all(|file| !url.contains(&format!("?{file}"))));
            assert_eq!(remote.remote(), Some(remote));
        }
    }
}
