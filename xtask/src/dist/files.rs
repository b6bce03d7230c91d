//! Files that are made, and directories that are removed.

use std::fs;
use std::path::Path;

use crate::outcome::Outcome;

/// Makes a file, and the directories that lead to it.
pub(super) fn write(path: &Path, text: &str) -> Outcome {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Removes a directory of an earlier run, if there is one.
pub(super) fn remove(directory: &Path) -> Outcome {
    if !directory.exists() {
        return Ok(());
    }
    fs::remove_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}
