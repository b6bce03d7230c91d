//! Names of keys and channels: a prefix and an escaped name, and back.
//!
//! The key of a name `a` is `lh:{a}`, and its queue and the like have `:q`, `:w`, `:h`, `:x` or
//! `:d` after that. So all of them are in one slot of a cluster. A name with a hash tag keeps it,
//! so that users can keep a lock in the slot of the data it protects: `lh:{user}/1`.
//!
//! Two names never share a key. A `%` in a name is written `%25`, so the only `%` without a `25`
//! are: `%7d`, for a `}` at the beginning, which would end the hash tag at once; and `%-` at the
//! end of a name whose key would look like that of another name. Other records of leasehold have a
//! `%` and a letter after the prefix, so no lock can have their keys. There is such a record once
//! for a server, or once in each slot of a cluster.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::sync::OnceLock;

use leasehold_core::{ClientId, LockName};

use super::slot::{SLOTS, slot, tag};

/// What follows the key of a lock in the names of its other keys.
const OTHERS: [&str; 5] = [":q", ":w", ":h", ":x", ":d"];

/// The end of the key of a queue.
const QUEUE: &str = OTHERS[0];

/// The end of a key that would look like another name's without it.
const OWN: &str = "%-";

/// How many numbers are tried: far more than are needed to find one for each slot.
const MOST_NUMBERS: u32 = 1 << 20;

/// The key of a lock.
pub fn key(prefix: &str, name: &LockName) -> Vec<u8> {
    braced(prefix, name.as_str()).into_bytes()
}

/// The lock with this key, or with this key of a queue; `None` if no lock can have it.
pub fn name(prefix: &str, key: &[u8]) -> Option<LockName> {
    let found = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let of = |found: &str| {
        let inside = found.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let plain = inside.map(|inside| match inside.strip_prefix("%7d") {
            Some(rest) => format!("}}{rest}"),
            None => inside.to_owned(),
        });
        let plain = plain.unwrap_or_else(|| found.strip_suffix(OWN).unwrap_or(found).to_owned());
        let name = plain.replace("%25", "%");
        (braced("", &name) == found).then(|| LockName::new(name).ok()).flatten()
    };
    of(found).or_else(|| of(found.strip_suffix(QUEUE)?))
}

/// Whether this key, which has a name, is that of a queue.
pub(crate) fn is_queue(prefix: &str, found: &[u8]) -> bool {
    name(prefix, found).is_some_and(|name| key(prefix, &name) != found)
}

/// The pattern for `SCAN … MATCH` that matches the keys of all locks whose name begins with
/// `begin`, and few others.
pub fn pattern(prefix: &str, begin: &str) -> Vec<u8> {
    let begin = escape(begin.trim_start_matches('}'));
    let mut pattern = beginning_with(prefix);
    if !begin.is_empty() {
        // In front of the name, there may be a brace.
        pattern.extend(beginning_with(&begin));
    }
    pattern
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

/// The key of a record of the store: the boot record, the counter of tokens, or what each node of a
/// quorum keeps. Because of the escape, no lock has this key. In a cluster a hash tag follows it
/// ([`SlotKeys`]).
pub(crate) fn of_store(prefix: &str, what: &str) -> Vec<u8> {
    format!("{prefix}%{what}").into_bytes()
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

/// The escaped name with a hash tag.
fn braced(prefix: &str, name: &str) -> String {
    let mut braced = String::new();
    let _ = write(&mut braced, prefix, name); // it takes everything
    braced
}

/// Writes the escaped name with a hash tag.
pub(crate) fn write(text: &mut impl Write, prefix: &str, name: &str) -> fmt::Result {
    let escaped = escape(name);
    let is_like_another = || {
        escaped.starts_with('{') && escaped.ends_with('}')
            || OTHERS.iter().any(|end| escaped.ends_with(end))
    };
    let parts = match (tag(name.as_bytes()), escaped.strip_prefix('}')) {
        (None, Some(rest)) => [prefix, "{%7d", rest, "}"],
        (None, None) => [prefix, "{", &escaped, "}"],
        (Some(_), _) => [prefix, &escaped, if is_like_another() { OWN } else { "" }, ""],
    };
    parts.into_iter().try_for_each(|part| text.write_str(part))
}

/// The part that a key is about: a slot of a cluster, or otherwise the whole server.
pub(crate) type Part = Option<u16>;

/// The keys of one kind.
#[derive(Clone, Debug)]
pub(crate) struct SlotKeys {
    server: Vec<u8>,
    in_cluster: bool,
    /// The number in the key of each slot, computed on first use.
    numbers: OnceLock<Vec<Option<u32>>>,
}

impl SlotKeys {
    /// Keys that begin with that for a server.
    pub(crate) fn new(server: Vec<u8>, in_cluster: bool) -> Self {
        Self { server, in_cluster, numbers: OnceLock::new() }
    }

    /// The part of a key.
    pub(crate) fn part(&self, key: Option<&[u8]>) -> Part {
        key.filter(|_| self.in_cluster).map(slot)
    }

    /// The parts with a key, for a server that serves these slots.
    pub(crate) fn parts(&self, slots: &[u16]) -> Vec<Part> {
        let known = slots.iter().filter(|slot| self.number(**slot).is_some());
        if self.in_cluster { known.map(|slot| Some(*slot)).collect() } else { vec![None] }
    }

    /// The key of a part.
    pub(crate) fn key(&self, part: Part) -> Cow<'_, [u8]> {
        let number = part.and_then(|slot| self.number(slot));
        number.map_or(Cow::Borrowed(&self.server), |number| self.numbered(number).into())
    }

    /// The number of a slot; `None` if no key of the store can be in that slot, because all keys of
    /// the store have the same hash tag.
    fn number(&self, slot: u16) -> Option<u32> {
        self.numbers.get_or_init(|| self.find()).get(usize::from(slot)).copied().flatten()
    }

    fn find(&self) -> Vec<Option<u32>> {
        let mut numbers = vec![None; usize::from(SLOTS)];
        let mut missing = if tag(&self.server).is_some() { 1 } else { SLOTS };
        for number in 0..MOST_NUMBERS {
            let found = &mut numbers[usize::from(slot(&self.numbered(number)))];
            if found.is_none() {
                *found = Some(number);
                missing -= 1;
            }
            if missing == 0 {
                break;
            }
        }
        numbers
    }

    fn numbered(&self, number: u32) -> Vec<u8> {
        [&self.server[..], format!("{{{number}}}").as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &str = "a % %25 %2525 %% %- %7d 25 {a} {a}:q {a}:x {a}:d {a}%- {a}%25- {{a}} \
        a:q } }a { {} {}a{b} {user}/1 x{a} a%b a%25b 日本語% inbox:x *?[\\]^";

    #[test]
    fn a_name_comes_back_from_its_key_and_from_that_of_its_queue() {
        for prefix in ["lh:", "", "%", "app%25:"] {
            for text in NAMES.split(' ') {
                let lock = LockName::new(text).unwrap();
                let found = key(prefix, &lock);
                let queue = [&found[..], b":q"].concat();
                assert_eq!(name(prefix, &found).as_ref(), Some(&lock), "{prefix:?} {text:?}");
                assert_eq!(name(prefix, &queue), Some(lock), "{prefix:?} {text:?}");
            }
        }
    }

    #[test]
    fn two_names_never_share_a_key() {
        let keys: Vec<_> =
            NAMES.split(' ').map(|text| key("lh:", &LockName::new(text).unwrap())).collect();
        let all = keys.iter().flat_map(|key| {
            ["", ":q", ":w", ":h", ":x", ":d"].map(|end| [&key[..], end.as_bytes()].concat())
        });
        let mut all: Vec<_> = all.collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn all_keys_of_a_name_are_in_one_slot() {
        for text in NAMES.split(' ') {
            let key = key("lh:", &LockName::new(text).unwrap());
            let queue = [&key[..], b":q"].concat();
            assert_eq!(slot(&queue), slot(&key), "{text:?}");
        }
    }

    #[test]
    fn a_key_that_is_no_locks_has_no_name() {
        let others = ["", "lh:", "lh:%boot", "lh:%token", "lh:{%}", "lh:{%2}", "lh:{%26}", "lh:a"];
        for key in others.into_iter().chain(["lh:{a\nb}", "other:{a}", "lh:{a}:w", "lh:{a}:h"]) {
            assert_eq!(name("lh:", key.as_bytes()), None, "{key:?}");
        }
        assert_eq!(name("lh:", b"lh:{\xff}"), None, "not UTF-8");
    }

    #[test]
    fn braces_pass_through_so_that_a_lock_shares_the_slot_of_its_data() {
        assert_eq!(key("lh:", &LockName::new("{user}/1").unwrap()), b"lh:{user}/1");
    }

    #[test]
    fn a_pattern_takes_no_character_of_a_name_for_a_wildcard() {
        assert_eq!(pattern("lh:", "a*[b]%"), b"lh:*a\\*\\[b\\]%25*");
        assert_eq!(pattern("lh:", ""), b"lh:*");
    }

    #[test]
    fn an_inbox_is_named_by_its_client() {
        assert_eq!(
            String::from_utf8(inbox("lh:", ClientId(0xab))).unwrap(),
            format!("lh:inbox:{}ab", "0".repeat(30))
        );
    }

    #[test]
    fn the_key_of_a_slot_is_in_that_slot() {
        for prefix in ["lh:", "", "a{b", "a{}b:"] {
            let keys = SlotKeys::new(of_store(prefix, "boot"), true);
            let slots: Vec<u16> = (0..SLOTS).collect();
            for (part, expected) in keys.parts(&slots).into_iter().zip(&slots) {
                assert_eq!(part, Some(*expected));
                let key = keys.key(part);
                assert_eq!(slot(&key), *expected, "{prefix:?}");
                assert!(key.starts_with(&of_store(prefix, "boot")));
            }
        }
    }

    #[test]
    fn where_all_keys_have_one_hash_tag_one_slot_has_a_key() {
        let keys = SlotKeys::new(of_store("{app}:", "boot"), true);
        let all: Vec<u16> = (0..SLOTS).collect();
        let lock = b"{app}:a".to_vec();
        assert_eq!(keys.parts(&all), [keys.part(Some(&lock))]);
        assert_eq!(slot(&keys.key(keys.part(Some(&lock)))), slot(&lock));
    }

    #[test]
    fn a_server_without_slots_has_one_key() {
        let keys = SlotKeys::new(of_store("lh:", "boot"), false);
        assert_eq!(keys.part(Some(b"lh:a")), None);
        assert_eq!(keys.parts(&[]), [None]);
        assert_eq!(*keys.key(None), *b"lh:%boot");
    }
}
