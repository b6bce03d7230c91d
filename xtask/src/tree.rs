//! The files of the repository.

use std::fs;
use std::path::Path;

use crate::run::{Outcome, root};

/// Names without files of ours: version control (a file, in a linked work tree) and build output.
const FOREIGN: [&str; 2] = [".git", "target"];

/// One text file of the repository.
#[derive(Debug)]
pub(crate) struct File {
    /// Its path below the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// Whether its name ends in this extension.
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }
}

/// Every file of ours that is text, sorted by path.
pub(crate) fn files() -> Outcome<Vec<File>> {
    let mut files = Vec::new();
    collect(&root(), &mut files).map_err(|error| format!("the files of the tree: {error}"))?;
    files.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(files)
}

fn collect(directory: &Path, files: &mut Vec<File>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let (entry, root) = (entry?, root());
        let (path, kind) = (entry.path(), entry.file_type()?);
        if FOREIGN.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file()
            && let Ok(text) = String::from_utf8(fs::read(&path)?)
        {
            let below = path.strip_prefix(&root).unwrap_or(&path);
            files.push(File::new(&below.to_string_lossy(), &text));
        }
    }
    Ok(())
}
