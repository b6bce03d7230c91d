//! Endings: those that must still reach the store, and those that a store may have forgotten.
//!
//! A failover to a replica that missed the last writes sets a store back in time. It still has the
//! places of waiters that were served meanwhile. Their client lives, so the store would grant each
//! of them in turn, and wait for its claim window. So the client gives such a grant back as soon as
//! a message announces it.

use std::collections::VecDeque;

use leasehold_core::{Action, FencingToken, HolderId, Instant, LockName};

/// The number of ended attempts that are remembered: 1024, as many waiters of one client as a store
/// may still know.
const REMEMBERED: usize = 1024;

/// An action that must still reach the store although nobody waits for it.
#[derive(Clone, Debug)]
pub(super) struct Cleanup {
    pub(super) name: LockName,
    pub(super) action: Action,
    /// From this instant on the action does not matter any more: time has done the same.
    pub(super) until: Instant,
    /// The notice that is published of the name, once the action is done.
    pub(super) notice: Option<String>,
}

/// The attempts whose release was asked for last, each with its token.
#[derive(Debug, Default)]
pub(super) struct RecentlyEnded(VecDeque<(HolderId, FencingToken, LockName)>);

impl RecentlyEnded {
    pub(super) fn add(&mut self, id: HolderId, token: FencingToken, name: &LockName) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back((id, token, name.clone()));
    }

    /// The name that an ended attempt was granted again. A message that is only late says nothing
    /// new: it has the token of the present lease, or a lower one if its holder has become the
    /// writer since.
    pub(super) fn granted_again(&self, id: HolderId, token: FencingToken) -> Option<LockName> {
        let ended = self.0.iter().rev().find(|(ended, ..)| *ended == id);
        ended.filter(|(_, own, _)| token > *own).map(|(.., name)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::ClientId;

    use super::*;

    fn id(attempt: u64) -> HolderId {
        HolderId { client: ClientId(1), attempt }
    }

    #[test]
    fn only_a_new_grant_of_an_attempt_that_has_ended_is_given_back() {
        let (mut ended, name) = (RecentlyEnded::default(), LockName::new("a").unwrap());
        let [first, own, other] =
            [1, 2, 3].map(|number| FencingToken::from_number(number).unwrap());
        assert_eq!(ended.granted_again(id(1), other), None);
        ended.add(id(1), own, &name);
        assert_eq!(ended.granted_again(id(1), own), None, "its own, late");
        assert_eq!(ended.granted_again(id(1), first), None, "of before its upgrade, late");
        assert_eq!(ended.granted_again(id(1), other), Some(name.clone()));
        for attempt in 0..REMEMBERED as u64 {
            ended.add(id(2 + attempt), own, &name);
        }
        assert_eq!(ended.granted_again(id(1), other), None, "forgotten in the end");
    }
}
