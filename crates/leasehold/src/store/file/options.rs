//! The options of a file store: [`FileOptions`], as values or as a URL.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold_core::InvalidInput;
use leasehold_core::model::{DEFAULT_RETENTION, Rules};

use crate::store::span::{self, RETENTIONS};

/// Most waiters poll only every 10 s, so that a hundred of them cost less than one hundredth of a
/// processor. At other stores, polls find lost messages and deaths. Here a message is lost only
/// with the process that sent it, and the deaths that concern a waiter wake it. So polls only have
/// to find waiters that hang.
pub(super) const RULES: Rules =
    Rules::new(DEFAULT_RETENTION).with_longest_silence(Duration::from_secs(10));

/// The path of a file store and its options: everything that a store URL can have, as values. A
/// path alone means all defaults.
///
/// # Examples
///
/// ```no_run
/// use std::time::Duration;
///
/// use leasehold::store::{File, FileOptions};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = File::open(
///     FileOptions::new("/srv/jobs/locks.db").retention(Duration::from_secs(3600)),
/// )?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until a store is opened with them"]
pub struct FileOptions {
    pub(super) path: PathBuf,
    retention: Duration,
}

impl FileOptions {
    /// The database at this path: `file:PATH`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), retention: RULES.retention }
    }

    /// The options in a URL: `file:PATH?retention=SPAN`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong.
    pub fn from_url(url: &str) -> Result<Self, InvalidInput> {
        let rest = url
            .strip_prefix("file:")
            .ok_or_else(|| invalid("the store URL of a file begins with `file:`".to_owned()))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query.split('&').filter(|option| !option.is_empty());
        let mut read = Self::new(checked(path)?);
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

    /// How long the record of a name is kept after its last use, with its last holder: 2 min by
    /// default, 1 s to 24 h. A restart of the machine ends the retention sooner.
    pub fn retention(mut self, span: Duration) -> Self {
        self.retention = span;
        self
    }

    /// The rules for steps, or an error for an option that is out of range.
    pub(super) fn rules(&self) -> Result<Rules, InvalidInput> {
        span::check("retention", self.retention, RETENTIONS)?;
        Ok(RULES.with_retention(self.retention))
    }
}

impl<P: AsRef<Path>> From<P> for FileOptions {
    fn from(path: P) -> Self {
        Self::new(path.as_ref())
    }
}

fn checked(path: &str) -> Result<&str, InvalidInput> {
    if path.starts_with("//") && !path.starts_with("///") {
        let why = "the store URL names a host, and a file store is local: write file:PATH";
        return Err(invalid(why));
    }
    if path == "~" || path.starts_with("~/") {
        // A shell expands `~` at the beginning of a word only.
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
        FileOptions::from_url(url).unwrap().path.into_os_string().into_string().unwrap()
    }

    fn why(url: &str) -> String {
        FileOptions::from_url(url).unwrap_err().why
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
        let retention = |url| FileOptions::from_url(url).unwrap().rules().unwrap().retention;
        assert_eq!(retention("file:c.db"), Duration::from_mins(2));
        assert_eq!(retention("file:c.db?retention=24h"), Duration::from_hours(24));
        for value in ["25h", "10ms"] {
            assert!(why(&format!("file:c.db?retention={value}")).contains("`retention` is "));
        }
        assert!(why("file:c.db?retention=soon").contains("`retention` in the store URL: "));
    }
}
