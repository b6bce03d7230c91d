//! All targets, of which each has a program.
#![forbid(unsafe_code)]

/// Has the target of this name read the bytes.
pub fn read(name: &str, bytes: &[u8]) {
    let library = leasehold::store::fuzzing::TARGETS.into_iter();
    let mut targets = library.chain(leasehold_cli::fuzzing::TARGETS);
    let target = targets.find(|(target, _)| *target == name);
    assert!(target.is_some(), "there is no target {name}");
    if let Some((_, read)) = target {
        read(bytes);
    }
}
