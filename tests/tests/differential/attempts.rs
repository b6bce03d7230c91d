//! The attempt of a step and the time that passes, in random histories of a lock that is shared
//! with other programs.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{ClientId, HolderId, HolderInfo};
use proptest::prelude::*;

/// The attempt of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// A new attempt of this client.
    New(u8),
    /// An earlier attempt, counted back.
    Known(usize),
}

/// The attempt that acquires: mostly a new one.
pub(crate) fn acquirer() -> impl Strategy<Value = Who> {
    prop_oneof![5 => (0..3_u8).prop_map(Who::New), 1 => (0..6_usize).prop_map(Who::Known)]
}

/// The attempts of one history.
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

/// The holder information of an attempt.
pub(crate) fn info(id: HolderId, pid: u32) -> HolderInfo {
    let label = id.attempt.is_multiple_of(2).then(|| "a label".to_owned());
    HolderInfo::new(format!("host-{}", id.attempt), pid).with_label(label)
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
