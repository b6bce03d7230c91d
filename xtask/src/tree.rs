//! The files of the repository.

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;

/// Where nothing of ours is: version control (a file, in a linked work tree) and build output.
const FOREIGN: [&str; 2] = [".git", "target"];

/// One text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path below the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Whether its name ends in this extension.
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// Every file of ours that is text, sorted by path.
pub(crate) fn files(root: &Path) -> Outcome<Vec<File>> {
    let mut files = Vec::new();
    collect(root, root, &mut files)?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn collect(root: &Path, directory: &Path, files: &mut Vec<File>) -> Outcome {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for entry in fs::read_dir(directory).map_err(|error| failed(directory, error))? {
        let entry = entry.map_err(|error| failed(directory, error))?;
        if FOREIGN.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let (path, kind) = (entry.path(), entry.file_type());
        let kind = kind.map_err(|error| failed(&path, error))?;
        if kind.is_dir() {
            collect(root, &path, files)?;
        } else if kind.is_file() {
            let bytes = fs::read(&path).map_err(|error| failed(&path, error))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path: below(root, &path), text });
            }
        }
    }
    Ok(())
}

fn below(root: &Path, path: &Path) -> String {
    let below: PathBuf = path.strip_prefix(root).unwrap_or(path).to_path_buf();
    below.to_string_lossy().into_owned()
}
