//! The corpus of fuzzing, read again: what has made a target fail once, and what reaches something
//! in it that nothing else does.
#![cfg(fuzzing)]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use leasehold::store::fuzzing::Target;

/// All targets.
fn targets() -> impl Iterator<Item = Target> {
    let library = leasehold::store::fuzzing::TARGETS.into_iter();
    library.chain(leasehold_cli::fuzzing::TARGETS).chain(leasehold_testkit::fuzzing::TARGETS)
}

fn corpus() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../evidence/fuzz/corpus"].iter().collect()
}

#[test]
fn the_corpus_of_every_target_is_read() {
    for (name, read) in targets() {
        let files = fs::read_dir(corpus().join(name)).unwrap();
        let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            println!("{}", file.display());
            read(&fs::read(file).unwrap());
        }
    }
}

#[test]
fn every_corpus_is_that_of_a_target() {
    let found = fs::read_dir(corpus()).unwrap();
    let found: BTreeSet<OsString> = found.map(|entry| entry.unwrap().file_name()).collect();
    let known: BTreeSet<OsString> = targets().map(|(name, _)| name.into()).collect();
    assert_eq!(found, known);
}
