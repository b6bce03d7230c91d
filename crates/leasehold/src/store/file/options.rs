//! The URL of a file store.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use leasehold_core::InvalidInput;

use crate::store::place::invalid;

/// The path in a URL of a file store, which has no options: `file:PATH`.
pub(super) fn path(url: &str) -> Result<PathBuf, InvalidInput> {
    let no_file = || invalid("the store URL of a file begins with `file:`");
    let rest = url.strip_prefix("file:").ok_or_else(no_file)?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let option = query.split(['&', '=']).next().unwrap_or_default();
    if !option.is_empty() {
        let why = "a file store has no options";
        return Err(invalid(format!("the store URL has the unknown option {option:?}: {why}")));
    }
    if path.starts_with("//") && !path.starts_with("///") {
        let why = "the store URL names a host, and a file store is local: write file:PATH";
        return Err(invalid(why));
    }
    if path == "~" || path.starts_with("~/") {
        // A shell expands `~` at the beginning of a word only.
        let rest = &path[1..];
        let why = format!("`~` stands for no directory in a store URL: write file:$HOME{rest}");
        return Err(invalid(why));
    }
    file_name(Path::new(path)).map(|_| path.into())
}

/// The name of the file at a path.
pub(super) fn file_name(path: &Path) -> Result<&OsStr, InvalidInput> {
    let name = path.file_name().filter(|_| !path.to_string_lossy().ends_with('/'));
    let shown = path.display();
    let why = || format!("file:{shown} names no file: write file:PATH, as in file:locks.db");
    name.ok_or_else(|| invalid(why()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path_of(url: &str) -> String {
        path(url).unwrap().into_os_string().into_string().unwrap()
    }

    fn why(url: &str) -> String {
        path(url).unwrap_err().why
    }

    #[test]
    fn a_url_is_a_path_and_is_refused_for_hosts() {
        assert_eq!(path_of("file:/a b/c.db"), "/a b/c.db");
        assert_eq!(path_of("file:///a/c.db"), "///a/c.db");
        assert_eq!(path_of("file:c.db"), "c.db");
        assert!(why("file://host/c.db").contains("names a host"));
        assert!(why("file:~/c.db").contains("write file:$HOME/c.db"));
        assert_eq!(path_of("file:./~/c.db"), "./~/c.db");
    }

    #[test]
    fn a_url_has_no_options() {
        assert!(why("file:c.db?timeout=3s").contains("the unknown option \"timeout\""));
        assert_eq!(path_of("file:c.db?"), "c.db");
    }
}
