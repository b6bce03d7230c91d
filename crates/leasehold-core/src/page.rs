//! A listing in pages, so that the caller decides how much a store has to do at a time.

use crate::name::LockName;

/// Some of the names that are held or awaited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The names, in no particular order. A name may come again on a later page.
    pub names: Vec<LockName>,
    /// The `after` for the next page; `None` if this page is the last.
    pub next: Option<String>,
    /// The number of keys that the store scanned and read for this page: its cost.
    pub scanned: u32,
}

impl Page {
    /// Some names, for which `scanned` keys were scanned and read.
    pub const fn new(names: Vec<LockName>, next: Option<String>, scanned: u32) -> Self {
        Self { names, next, scanned }
    }

    /// Adds the next name, in a store that keeps names in order. Returns whether this page, which
    /// scans at most `keys` names, has room for another one.
    pub fn scan(&mut self, name: &LockName, is_used: bool, keys: u32) -> bool {
        self.scanned += 1;
        if is_used {
            self.names.push(name.clone());
        }
        let has_room = self.scanned < keys;
        if !has_room {
            self.next = Some(name.to_string());
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_names_in_use_and_ends_after_a_number_of_any_kind() {
        let [a, b, c] = ["a", "b", "c"].map(|name| LockName::new(name).unwrap());
        let mut page = Page::default();
        assert!(page.scan(&a, true, 3) && page.scan(&b, false, 3));
        assert_eq!(page, Page::new(vec![a.clone()], None, 2));
        assert!(!page.scan(&c, true, 3));
        assert_eq!(page, Page::new(vec![a, c], Some("c".to_owned()), 3));
    }
}
