//! The URL of a file store.

use leasehold_core::InvalidInput;

/// The path in `file:PATH`.
pub(super) fn path_of(url: &str) -> Result<&str, InvalidInput> {
    let path = url.strip_prefix("file:").unwrap_or(url);
    if let Some((path, _)) = path.split_once('?') {
        let why = format!("a file store has no options behind a `?`: write file:{path}");
        return Err(InvalidInput::new("url", why));
    }
    if path.starts_with("//") && !path.starts_with("///") {
        let why = "the store URL names a host, and a file store is local: write file:PATH";
        return Err(InvalidInput::new("url", why));
    }
    if path == "~" || path.starts_with("~/") {
        // A shell expands it at the beginning of a word only.
        let why =
            format!("`~` stands for no directory in a store URL: write file:$HOME{}", &path[1..]);
        return Err(InvalidInput::new("url", why));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_refused_for_options_and_hosts() {
        assert_eq!(path_of("file:/a b/c.db").unwrap(), "/a b/c.db");
        assert_eq!(path_of("file:///a/c.db").unwrap(), "///a/c.db");
        assert_eq!(path_of("file:c.db").unwrap(), "c.db");
        assert!(path_of("file:c.db?timeout=3s").unwrap_err().why.contains("no options"));
        assert!(path_of("file://host/c.db").unwrap_err().why.contains("names a host"));
        assert!(path_of("file:~/c.db").unwrap_err().why.contains("write file:$HOME/c.db"));
        assert_eq!(path_of("file:./~/c.db").unwrap(), "./~/c.db");
    }
}
