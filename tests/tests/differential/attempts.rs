//! The attempt of a step, and what is believed after it: for random histories of a lock that is
//! shared with other programs.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Action, ClientId, HolderId, HolderInfo, Reply, Take};
use proptest::prelude::*;

/// The attempt of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    New(u8),
    /// An earlier attempt, counted back.
    Known(usize),
}

/// The attempt that acquires: mostly a new one.
pub(crate) fn acquirer() -> impl Strategy<Value = Who> {
    prop_oneof![5 => (0..3_u8).prop_map(Who::New), 1 => (0..6_usize).prop_map(Who::Known)]
}

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    known: Vec<HolderId>,
    /// How many attempts each client has made.
    counts: BTreeMap<u8, u64>,
}

impl Attempts {
    pub(crate) fn id(&mut self, who: Who) -> HolderId {
        if let Who::Known(back) = who
            && !self.known.is_empty()
        {
            return self.known[self.known.len() - 1 - back % self.known.len()];
        }
        let Who::New(client) = who else { return self.id(Who::New(0)) };
        let attempt = self.counts.entry(client).or_default();
        *attempt += 1;
        let id = HolderId { client: ClientId(0xabc_u128 << (client * 40)), attempt: *attempt };
        self.known.push(id);
        id
    }
}

pub(crate) fn info(id: HolderId, pid: u32) -> HolderInfo {
    let label = id.attempt.is_multiple_of(2).then(|| "a label".to_owned());
    HolderInfo::new(format!("host-{}", id.attempt), pid).with_label(label)
}

/// A lease that every request may ask for.
pub(crate) fn lease() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (1..2_000_000_u64).prop_map(Duration::from_micros),
        (1..=30_000_u64).prop_map(Duration::from_millis),
    ]
}

/// How much time passes, in µs.
pub(crate) fn pass() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 1..1_000_u64,
        4 => 1_000..3_000_000_u64,
        2 => 3_000_000..20_000_000_u64,
        1 => 20_000_000..100_000_000_u64,
    ]
}

/// The time at which a history begins.
pub(crate) const START_US: u64 = 2_500_000_000_123_457;

/// A span in milliseconds, as scripts take it.
pub(crate) fn millis(span: Duration) -> u64 {
    span.as_micros().div_ceil(1_000) as u64
}

/// An action of ours as it was played by the models.
#[derive(Clone, Debug)]
pub(crate) struct Played<L, M> {
    /// The lock before the step, if another program has changed it.
    pub(crate) before: Option<L>,
    pub(crate) action: Action,
    pub(crate) now_us: u64,
    pub(crate) reply: Reply,
    pub(crate) told: Vec<M>,
    pub(crate) after: L,
}

impl<L, M> Played<L, M> {
    /// Checks the reply to a copy of the action, before which nobody changed the lock.
    pub(crate) fn check_copy(&self, again: &Reply) -> Result<(), String> {
        match (&self.reply, again) {
            (Reply::Granted(first), Reply::Granted(second)) if first.token != second.token => {
                Err("a copy is granted something else".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Records what a client of ours believes after the reply: a promise until this time in µs.
    pub(crate) fn believe<P>(
        &self,
        ours: &mut BTreeMap<HolderId, P>,
        promise: impl FnOnce(HolderId, u64) -> P,
    ) {
        let id = match (&self.action, self.action.holder()) {
            (_, Some(id)) => id,
            (Action::Revoke { id, .. }, None) => *id,
            _ => return,
        };
        match &self.reply {
            Reply::Granted(_) | Reply::Kept { .. } => {
                let ttl = self.action.ttl().map_or(0, |ttl| ttl.as_micros() as u64);
                ours.insert(id, promise(id, self.now_us + ttl));
                if let Action::Take(Take { from: Some(from), .. }) = &self.action
                    && *from != id
                {
                    ours.remove(from);
                }
            }
            Reply::Ended(_) if matches!(self.action, Action::Revoke { force: false, .. }) => {}
            Reply::Ended(true) | Reply::NotHeld => drop(ours.remove(&id)),
            _ => {}
        }
    }
}
