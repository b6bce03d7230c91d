//! What people, files and peers give to the command, as targets of fuzzing: whatever the bytes are,
//! nothing panics. For leasehold's own tests.

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

/// The words of a command line, one a line.
fn command_line(bytes: &[u8]) {
    let words = bytes.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec()));
    let words: Vec<_> = [OsString::from("leasehold")].into_iter().chain(words).collect();
    drop(parse::parse(&words));
}

/// A file that says which store is used, and the variable that does.
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

/// What `take` has printed, or somebody says that it has.
fn handle(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(handle) = Handle::decode(text) {
        let again = handle.encode().and_then(|text| Handle::decode(&text));
        assert_eq!(again.as_ref(), Ok(&handle));
        // The handle may have been forged: it leads to no file, no socket and no login of this
        // machine.
        if let Some(remote) = StoreUrl::from(handle.store.as_str()).remote() {
            let url = remote.reveal();
            assert!(remote.is_on_servers() && !url.contains('@') && !url.contains("+unix:"));
            assert!(["ca=", "cert=", "key="].iter().all(|file| !url.contains(&format!("?{file}"))));
            assert_eq!(remote.remote(), Some(remote));
        }
    }
}
