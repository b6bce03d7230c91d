//! Replays the corpus of fuzzing: inputs that made a target fail once, and inputs that reach code
//! that no other input reaches.
#![cfg(fuzzing)]

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use leasehold::store::fuzzing::Target;

fn targets() -> impl Iterator<Item = Target> {
    let library = leasehold::store::fuzzing::TARGETS.into_iter();
    library.chain(leasehold_cli::fuzzing::TARGETS)
}

fn corpus() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../evidence/fuzz/corpus"].iter().collect()
}

#[test]
fn the_corpus_of_every_target_is_read() {
    let unpacked = tempfile::tempdir().unwrap();
    for (name, read) in targets() {
        let archive = corpus().join(format!("{name}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("-xzf").arg(&archive).arg("-C").arg(unpacked.path());
        assert!(tar.status().unwrap().success(), "{}", archive.display());
        let files = fs::read_dir(unpacked.path().join(name)).unwrap();
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
    let found = fs::read_dir(corpus()).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<_> = found.map(|name| name.into_string().unwrap()).collect();
    let known: BTreeSet<_> = targets().map(|(name, _)| format!("{name}.tar.gz")).collect();
    assert_eq!(found, known);
}
