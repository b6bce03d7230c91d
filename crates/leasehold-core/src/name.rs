//! Names of locks, parsed once, and the error for values that are refused.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The longest name, in bytes. That is long enough for a path or a URL, and short enough for ten
/// thousand waiters of one name. etcd and Consul recommend the same limit for keys.
pub const MAX_NAME_BYTES: usize = 512;

/// The length of the readable part of a name with a hash: 64 characters, at most 256 bytes. That
/// leaves room for the hash, whatever the characters are.
const READABLE_CHARS: usize = 64;

/// The name of a lock: 1 to 512 bytes of UTF-8 without control characters.
///
/// Names are compared byte by byte; there is no normalisation, and `/` has no special meaning. A
/// text that is longer, or has control characters, gets a name by its hash: [`LockName::hashed`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] if the name is empty, longer than 512 bytes, or has a control character.
    /// For such texts use [`LockName::hashed`].
    pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let (name, length) = (name.as_ref(), name.as_ref().len());
        let why = if length == 0 {
            "a lock's name is empty: give it at least one byte".to_owned()
        } else if length > MAX_NAME_BYTES {
            format!(
                "a lock's name has {length} bytes, and the limit is {MAX_NAME_BYTES}: take its \
                 hash (`LockName::hashed`, in a shell `sha256sum`)"
            )
        } else if let Some((at, found)) = name.char_indices().find(|(_, c)| c.is_control()) {
            let found = found.escape_default();
            format!("a lock's name has the control character {found} at byte {at}: remove it")
        } else {
            return Ok(Self(name.into()));
        };
        Err(InvalidInput::new("name", why))
    }

    /// A name for a text of any length: a path, a URL, a query. It is the first 64 characters of
    /// the text, `~`, and the SHA-256 of the whole text in 64 hex digits. So two texts have
    /// different names. The readable part has no control characters.
    ///
    /// In a shell, for a text without control characters:
    /// `"${text:0:64}~$(printf %s "$text" | sha256sum | cut -c1-64)"`.
    ///
    /// ```
    /// use leasehold_core::LockName;
    ///
    /// let url = format!("https://example.org/reports?{}", "from=2026-01-01&".repeat(100));
    /// let name = LockName::hashed(&url);
    /// assert!(LockName::new(&url).is_err() && name.as_str().starts_with("https://example.org/"));
    /// assert_ne!(name, LockName::hashed(format!("{url}x")));
    /// ```
    pub fn hashed(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let readable = text.chars().take(READABLE_CHARS).filter(|c| !c.is_control());
        let mut name: String = readable.chain(['~']).collect();
        name.extend(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")));
        Self(name.into())
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LockName {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        Self::new(text)
    }
}

/// Implements `serde` for values that are read and written as text.
macro_rules! as_text {
    ($($value:ty),+) => {$(
        impl TryFrom<String> for $value {
            type Error = InvalidInput;

            fn try_from(text: String) -> Result<Self, InvalidInput> {
                text.parse()
            }
        }

        impl From<$value> for String {
            fn from(value: $value) -> Self {
                value.to_string()
            }
        }
    )+};
}

pub(crate) use as_text;

as_text!(LockName);

/// A name, an option or a URL was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct InvalidInput {
    /// The value that was refused: `name`, `ttl`, `url`, …
    pub what: &'static str,
    /// What is wrong with it and what to write instead, in one line.
    pub why: String,
}

impl InvalidInput {
    /// Makes the error from the refused value and the reason.
    pub fn new(what: &'static str, why: impl Into<String>) -> Self {
        Self { what, why: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_between_1_and_512_bytes() {
        assert!(LockName::new("").is_err());
        assert!(LockName::new("x").is_ok());
        assert!(LockName::new("x".repeat(512)).is_ok());
        assert!(LockName::new("x".repeat(513)).is_err());
        assert!(LockName::new("ü".repeat(256)).is_ok());
        assert!(LockName::new("ü".repeat(257)).is_err());
    }

    #[test]
    fn a_control_character_is_named_in_the_refusal() {
        for (name, shown) in [("a\nb", "\\n"), ("a\0", "\\u{0}"), ("\u{1b}[31m", "\\u{1b}")] {
            let refusal = LockName::new(name).unwrap_err();
            assert!(refusal.why.contains(shown), "{refusal}");
        }
        assert!(LockName::new("a\u{85}b").is_err(), "C1 control characters count too");
    }

    #[test]
    fn any_text_has_its_own_name_by_its_hash() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(LockName::hashed("abc").as_str(), format!("abc~{abc}"));
        let long = "\u{10ffff}".repeat(10_000);
        for text in ["", "a\nb\0", &long, &long[4..], &"x".repeat(513)] {
            let name = LockName::hashed(text);
            assert_eq!(LockName::new(name.as_str()).as_ref(), Ok(&name), "{name}");
            let others = ["", "abc", "ab\n", "a\nb\0", "xx"].iter().filter(|other| **other != text);
            assert!(others.into_iter().all(|other| LockName::hashed(other) != name), "{name}");
        }
        assert!(LockName::hashed("a\nb").as_str().starts_with("ab~"));
        assert_ne!(LockName::hashed(&long), LockName::hashed(&long[4..]));
    }

    #[test]
    fn braces_slashes_spaces_and_any_script_are_fine() {
        for name in ["{user}/1", "a b", "日本語", "--flag", "../x", "*?[", "a:q"] {
            let lock = LockName::new(name).unwrap();
            assert_eq!((lock.as_str(), lock.as_ref()), (name, name));
            assert_eq!(String::from(lock), name);
        }
    }
}
