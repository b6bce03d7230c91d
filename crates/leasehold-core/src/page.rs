//! A listing in pages, so that whoever looks decides how much a store has to do at a time.

use crate::name::LockName;

/// Some of the names that are held or awaited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The names, in no particular order. One may come again on a later page.
    pub names: Vec<LockName>,
    /// What the next page comes after; none if this is the last.
    pub next: Option<String>,
    /// How many keys were passed and read for it: what it cost the store.
    pub looked_at: u32,
}

impl Page {
    /// Some names, of which `looked_at` keys were looked at.
    pub const fn new(names: Vec<LockName>, next: Option<String>, looked_at: u32) -> Self {
        Self { names, next, looked_at }
    }

    /// Looks at one more name, in a store that keeps them in order. Gives whether the page has room
    /// for another, of `keys` in all.
    pub fn look_at(&mut self, name: &LockName, is_used: bool, keys: u32) -> bool {
        self.looked_at += 1;
        if is_used {
            self.names.push(name.clone());
        }
        let has_room = self.looked_at < keys;
        if !has_room {
            self.next = Some(name.to_string());
        }
        has_room
    }
}
