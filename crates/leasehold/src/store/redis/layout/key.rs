//! Names of keys and channels: a prefix and an escaped name, and back.
//!
//! Two names never share a key. Braces pass through, so that users can keep a lock in the cluster
//! slot of the data it protects. A `%` in a name is written `%25`, so every `%` in a lock's key is
//! followed by `25`. Other records of leasehold have a `%` and a letter after the prefix, so no
//! lock can have their keys.

use std::borrow::Cow;

use leasehold_core::{ClientId, LockName};

/// The key of a lock.
pub fn key(prefix: &str, name: &LockName) -> Vec<u8> {
    [prefix.as_bytes(), escape(name.as_str()).as_bytes()].concat()
}

/// The lock with this key, or `None` if no lock can have it.
pub fn name(prefix: &str, key: &[u8]) -> Option<LockName> {
    let escaped = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let name = escaped.replace("%25", "%");
    (escape(&name) == escaped).then(|| LockName::new(name).ok()).flatten()
}

/// The pattern for `SCAN … MATCH` that matches the keys of all locks whose name begins with
/// `begin`.
pub fn pattern(prefix: &str, begin: &str) -> Vec<u8> {
    beginning_with(&format!("{prefix}{}", escape(begin)))
}

/// The pattern for `SCAN … MATCH` that matches all keys that begin with `begin`.
pub(crate) fn beginning_with(begin: &str) -> Vec<u8> {
    let mut pattern = Vec::with_capacity(begin.len() + 1);
    for byte in begin.bytes() {
        if matches!(byte, b'*' | b'?' | b'[' | b']' | b'^' | b'\\') {
            pattern.push(b'\\');
        }
        pattern.push(byte);
    }
    pattern.push(b'*');
    pattern
}

/// The key of the boot record, which says to which run of the server the locks belong. Because of
/// the escape, no lock has this key. In a cluster a hash tag follows it
/// ([`BootKeys`](super::boot_key::BootKeys)).
pub(crate) fn boot(prefix: &str) -> Vec<u8> {
    format!("{prefix}%boot").into_bytes()
}

/// The key of a record that each node of a quorum keeps: the id of the node, and the lists of nodes
/// that its clients use.
pub(crate) fn nodes(prefix: &str) -> Vec<u8> {
    format!("{prefix}%nodes").into_bytes()
}

/// The channel of the messages to a client. All of them begin with
/// [`inbox_prefix`], so that one ACL pattern (`&lh:inbox:*`) covers them.
pub fn inbox(prefix: &str, client: ClientId) -> Vec<u8> {
    format!("{}{client}", inbox_prefix(prefix)).into_bytes()
}

/// The channel of the messages about a name in a database. Channels are shared by all databases,
/// and two databases may have a lock of the same name. The channel begins like an inbox, so that
/// the rights to inboxes suffice. No client id contains a `@`, so the channel is never an inbox.
pub fn channel(prefix: &str, database: u32, name: &LockName) -> Vec<u8> {
    format!("{}{database}@{}", inbox_prefix(prefix), escape(name.as_str())).into_bytes()
}

/// The beginning of the channels of all clients.
pub fn inbox_prefix(prefix: &str) -> String {
    [prefix, "inbox:"].concat()
}

fn escape(name: &str) -> Cow<'_, str> {
    if name.contains('%') { name.replace('%', "%25").into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 12] = [
        "a",
        "%",
        "%25",
        "%2525",
        "%%",
        "25",
        "{user}/1",
        "a%b",
        "a%25b",
        "日本語%",
        "inbox:x",
        "*?[\\]^",
    ];

    #[test]
    fn a_name_comes_back_from_its_key() {
        for prefix in ["lh:", "", "%", "app%25:"] {
            for text in NAMES {
                let lock = LockName::new(text).unwrap();
                assert_eq!(name(prefix, &key(prefix, &lock)), Some(lock), "{prefix:?} {text:?}");
            }
        }
    }

    #[test]
    fn two_names_never_share_a_key() {
        let keys = NAMES.map(|text| key("lh:", &LockName::new(text).unwrap()));
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{}", NAMES[index]);
        }
    }

    #[test]
    fn a_key_that_is_no_locks_has_no_name() {
        for key in ["", "lh:", "lh:%boot", "lh:%", "lh:%2", "lh:%26", "lh:a\nb", "other:a"] {
            assert_eq!(name("lh:", key.as_bytes()), None, "{key:?}");
        }
        assert_eq!(name("lh:", b"lh:\xff"), None, "not UTF-8");
    }

    #[test]
    fn braces_pass_through_so_that_a_lock_shares_the_slot_of_its_data() {
        assert_eq!(key("lh:", &LockName::new("{user}/1").unwrap()), b"lh:{user}/1");
    }

    #[test]
    fn a_pattern_takes_no_character_of_a_name_for_a_wildcard() {
        assert_eq!(pattern("lh:", "a*[b]%"), b"lh:a\\*\\[b\\]%25*");
        assert_eq!(pattern("lh:", ""), b"lh:*");
    }

    #[test]
    fn an_inbox_is_named_by_its_client() {
        assert_eq!(
            String::from_utf8(inbox("lh:", ClientId(0xab))).unwrap(),
            format!("lh:inbox:{}ab", "0".repeat(30))
        );
    }
}
