//! The URL of a file store.

use leasehold_core::InvalidInput;

use super::options::FileOptions;
use crate::store::history;

/// What `file:PATH?OPTION=VALUE&…` says.
pub(super) fn read(url: &str) -> Result<FileOptions, InvalidInput> {
    let rest = url.strip_prefix("file:").unwrap_or(url);
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let options = query.split('&').filter(|option| !option.is_empty());
    let mut read = FileOptions::new(checked(path)?);
    let mut has_history = false;
    for option in options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name != "history" {
            return Err(invalid(format!(
                "the store URL has the unknown option {name:?}: for a file store there is history"
            )));
        }
        if std::mem::replace(&mut has_history, true) {
            return Err(invalid(format!("the option `{name}` is in the store URL twice")));
        }
        read = read.history(history::parse(value)?);
    }
    Ok(read)
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
    Ok(path)
}

fn invalid(why: impl Into<String>) -> InvalidInput {
    InvalidInput::new("url", why)
}

#[cfg(test)]
mod tests {
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
    fn a_url_may_ask_for_a_history_and_for_nothing_else() {
        let options = read("file:/a b/c.db?history=16").unwrap();
        assert_eq!(
            (path_of("file:c.db?history=3").as_str(), options.rules().unwrap().history),
            ("c.db", 16)
        );
        assert_eq!(read("file:c.db").unwrap().rules().unwrap().history, 0);
        assert!(why("file:c.db?timeout=3s").contains("the unknown option \"timeout\""));
        assert!(why("file:c.db?history=2&history=2").contains("twice"));
        for value in ["17", "-1", "", "all"] {
            let why = why(&format!("file:c.db?history={value}"));
            assert!(why.contains(&format!("`history` is {value:?}")), "{why}");
        }
    }
}
