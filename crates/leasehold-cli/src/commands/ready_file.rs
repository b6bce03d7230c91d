//! The file of `elect --ready-file`, which a probe reads instead of asking the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::report::{Failure, escaped};

/// A file that says `stands by` or `leads` as long as that is true, and is removed afterwards.
#[derive(Clone, Debug)]
pub(super) struct ReadyFile(Arc<Mutex<Option<PathBuf>>>);

impl ReadyFile {
    /// A file that will be at this path. Removes a file that a killed process has left there.
    ///
    /// # Errors
    ///
    /// If that file cannot be removed.
    pub(super) fn at(path: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = path
            && let Err(error) = fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(refused(path, &error));
        }
        Ok(Self(Arc::new(Mutex::new(path.map(Path::to_path_buf)))))
    }

    /// Replaces the file in one step, so that nobody reads half a word.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub(super) fn say(&self, state: &str) -> Result<(), Failure> {
        let path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = path.as_ref() else { return Ok(()) };
        let mut beside = path.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let written = fs::write(&beside, format!("{state}\n"));
        written.and_then(|()| fs::rename(&beside, path)).map_err(|error| refused(path, &error))
    }

    /// Removes the file for good.
    pub(super) fn remove(&self) {
        if let Some(path) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // An error cannot be handled here. The next start reports it.
            let _gone = fs::remove_file(path);
        }
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("--ready-file {}: {error}", escaped(&path.to_string_lossy())))
}
