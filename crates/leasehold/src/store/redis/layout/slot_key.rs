//! Keys that a store has once for a server, or once in each slot of a cluster: boot records, and
//! counters of tokens.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::slot::{SLOTS, slot, tag};

/// How many numbers are tried: far more than are needed to find one for each slot.
const MOST_NUMBERS: u32 = 1 << 20;

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
    use super::super::key;
    use super::*;

    #[test]
    fn the_key_of_a_slot_is_in_that_slot() {
        for prefix in ["lh:", "", "a{b", "a{}b:"] {
            let keys = SlotKeys::new(key::of_store(prefix, "boot"), true);
            let slots: Vec<u16> = (0..SLOTS).collect();
            for (part, expected) in keys.parts(&slots).into_iter().zip(&slots) {
                assert_eq!(part, Some(*expected));
                let key = keys.key(part);
                assert_eq!(slot(&key), *expected, "{prefix:?}");
                assert!(key.starts_with(&key::of_store(prefix, "boot")));
            }
        }
    }

    #[test]
    fn where_all_keys_have_one_hash_tag_one_slot_has_a_key() {
        let keys = SlotKeys::new(key::of_store("{app}:", "boot"), true);
        let all: Vec<u16> = (0..SLOTS).collect();
        let lock = b"{app}:a".to_vec();
        assert_eq!(keys.parts(&all), [keys.part(Some(&lock))]);
        assert_eq!(slot(&keys.key(keys.part(Some(&lock)))), slot(&lock));
    }

    #[test]
    fn a_server_without_slots_has_one_key() {
        let keys = SlotKeys::new(key::of_store("lh:", "boot"), false);
        assert_eq!(keys.part(Some(b"lh:a")), None);
        assert_eq!(keys.parts(&[]), [None]);
        assert_eq!(*keys.key(None), *b"lh:%boot");
    }
}
