//! The URL of a file store.

use leasehold_core::InvalidInput;

use super::options::FileOptions;
use crate::store::span;

/// What `file:PATH?OPTION=VALUE&…` says.
pub(super) fn read(url: &str) -> Result<FileOptions, InvalidInput> {
    let rest = url.strip_prefix("file:").unwrap_or(url);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let options = query.split('&').filter(|option| !option.is_empty());
    let mut read = FileOptions::new(checked(path)?);
    let mut seen = Vec::new();
    for option in options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if seen.contains(&name) {
            return Err(invalid(format!("the option `{name}` is in the store URL twice")));
        }
        seen.push(name);
        read = match name {
            "retention" => read.retention(span::read(name, value)?),
            _ => {
                return Err(invalid(format!(
                    "the store URL has the unknown option {name:?}: for a file store there is \
                     retention"
                )));
            }
        };
    }
    read.rules().map(|_| read)
}

fn checked(path: &str) -> Result<&str, InvalidInput> {
    if path.starts_with("//") && !path.starts_with("///") {
        let why = "the store URL names a host, and a file store is local: write file:PATH";
        return Err(invalid(why));
    }
    if path == "~" || path.starts_with("~/") {
        // A shell expands it at the beginning of a word only.
        return Err(invalid(format!(
            "`~` stands for no directory in a store URL: write file:$HOME{}",
            &path[1..]
        )));
    }
    if path.is_empty() || path.ends_with('/') {
        return Err(invalid(format!(
            "file:{path} names no file: write file:PATH, as in file:locks.db"
        )));
    }
    Ok(path)
}

fn invalid(why: impl Into<String>) -> InvalidInput {
    InvalidInput::new("url", why)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn path_of(url: &str) -> String {
        read(url).unwrap().path.into_os_string().into_string().unwrap()
    }

    fn why(url: &str) -> String {
        read(url).unwrap_err().why
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
    fn a_url_may_ask_for_a_retention_and_for_nothing_else() {
        assert_eq!(path_of("file:/a b/c.db?retention=1h"), "/a b/c.db");
        assert!(why("file:c.db?timeout=3s").contains("the unknown option \"timeout\""));
        assert!(why("file:c.db?retention=2h&retention=2h").contains("twice"));
        let retention = |url| read(url).unwrap().rules().unwrap().retention;
        assert_eq!(retention("file:c.db"), Duration::from_mins(2));
        assert_eq!(retention("file:c.db?retention=24h"), Duration::from_hours(24));
        for value in ["25h", "10ms"] {
            assert!(why(&format!("file:c.db?retention={value}")).contains("`retention` is "));
        }
        assert!(why("file:c.db?retention=soon").contains("`retention` in the store URL: "));
    }
}
