//! Describes locks in words: their names, their holders, and the clients that block a request.

use leasehold::LockName;
use leasehold::admin::{HoldState, Holder, Status};
use leasehold::lease::Mode;
use leasehold::time::show_duration;

use crate::report::escaped;

/// Joins names into one text, in the form in which CMD gets them.
pub(crate) fn joined(names: &[LockName]) -> String {
    names.iter().map(LockName::as_str).collect::<Vec<_>>().join(" ")
}

/// Describes the clients that block a refused request: the holders of the lock, or the waiters
/// before the request, if the holders leave room for it.
pub(crate) fn blocker(mode: Mode, status: &Status) -> Option<String> {
    let held = holders(status);
    let taken: u64 = status.holders.iter().map(|holder| u64::from(holder.mode.weight())).sum();
    let fits = taken + u64::from(mode.weight()) <= u64::from(mode.capacity());
    let Some(first) = status.waiters.first().filter(|_| fits && status.foreign.is_none()) else {
        return held;
    };
    let for_what = match first.mode {
        Mode::Permits { count, capacity } => format!("for {count} of {capacity} permits"),
        Mode::Shared => "to share it".to_owned(),
        _ => "to be alone with it".to_owned(),
    };
    let (who, waited) = (first.info.process(first.id), show_duration(first.waited));
    let held = held.map(|held| format!(", {held}")).unwrap_or_default();
    Some(format!("{who} waits before it, {for_what}, for {waited}{held}"))
}

/// Describes the holders of a lock and how long the first one has held it. If the lock is free,
/// describes the client that holds it back.
pub(crate) fn holders(status: &Status) -> Option<String> {
    if status.foreign.is_some() {
        return Some("held by a program other than leasehold".to_owned());
    }
    if let Some((first, others)) = status.holders.split_first() {
        return Some(holder(first, others.len()));
    }
    let (first, others) = status.held_back.split_first()?;
    Some(format!("held back by {}{}", escaped(first), and_more(others.len())))
}

/// Describes one holder of a lock, and the number of other holders.
pub(crate) fn holder(first: &Holder, others: usize) -> String {
    let who = first.info.in_words(first.id);
    let others = and_more(others);
    match first.state {
        HoldState::Cooldown => {
            let left = show_duration(first.ttl_left);
            format!(
                "in cooldown for another {left} by --min-hold of {who}, which has ended{others}"
            )
        }
        _ => format!("held by {who} for {}{others}", show_duration(first.held_for)),
    }
}

fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold::FencingToken;
    use leasehold::admin::{ClientId, HolderId, HolderInfo, Waiter};

    use super::*;

    fn id(attempt: u64) -> HolderId {
        HolderId { client: ClientId(1), attempt }
    }

    fn info(pid: u32) -> HolderInfo {
        HolderInfo::new("vm", pid)
    }

    fn held(mode: Mode, pid: u32) -> Holder {
        let token = FencingToken::from_number(1).unwrap();
        let span = Duration::from_secs(9);
        let (id, info, state) = (id(1), info(pid), HoldState::Claimed);
        Holder::new(id, mode, Some(token))
            .with_state(state)
            .with_info(info)
            .with_held_for(span)
            .with_ttl_left(span)
    }

    fn waits(mode: Mode, pid: u32) -> Waiter {
        Waiter::new(id(2), mode, info(pid), Duration::from_secs(3), 1)
    }

    fn status(holders: Vec<Holder>, waiters: Vec<Waiter>) -> Status {
        let waiting = waiters.len() as u32;
        Status::default().with_holders(holders).with_waiters(waiters).with_waiting(waiting)
    }

    #[test]
    fn who_would_fit_beside_the_holders_is_told_who_waits_before_it() {
        let read = status(vec![held(Mode::Shared, 7)], vec![waits(Mode::Exclusive, 8)]);
        let said = blocker(Mode::Shared, &read).unwrap();
        assert_eq!(
            said,
            "vm:8 waits before it, to be alone with it, for 3.0s, held by vm:7 for 9.0s"
        );
        assert_eq!(blocker(Mode::Exclusive, &read).unwrap(), "held by vm:7 for 9.0s");
        let permits = |count| Mode::Permits { count, capacity: 4 };
        let gpu =
            status(vec![held(permits(2), 7), held(permits(1), 6)], vec![waits(permits(3), 8)]);
        let said = blocker(permits(1), &gpu).unwrap();
        assert!(said.starts_with("vm:8 waits before it, for 3 of 4 permits"), "{said}");
        assert_eq!(blocker(permits(2), &gpu).unwrap(), "held by vm:7 for 9.0s and 1 more");
        assert_eq!(blocker(Mode::Exclusive, &Status::default()), None);
    }
}
