//! All keys of a name, as the model and a server have them.

use leasehold_core::model::{Record, text};

/// All keys of a name but for their expiry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) gate: Option<String>,
    /// Places and requests, in order.
    pub(super) queue: Vec<(String, String)>,
    /// Requests of shared holds, with their tokens.
    pub(super) shares: Vec<(String, String)>,
    pub(super) closed: Vec<String>,
    pub(super) last: Option<String>,
}

impl Keys {
    pub(super) fn of(record: &Record) -> Self {
        let gate = record.gate.as_ref().map(|gate| text::gate(&gate.state, record.used()));
        let queue = record.queue.iter().map(|(place, waiter)| {
            (place.to_string(), text::request(&waiter.request)) //
        });
        let shares = record.shares.values().map(|share| {
            (text::request(&share.request), share.token.to_string()) //
        });
        let mut shares: Vec<_> = shares.collect();
        shares.sort_unstable();
        let closed = record.closed.iter().map(ToString::to_string);
        let last = record.last.as_ref().map(text::last);
        Self { gate, queue: queue.collect(), shares, closed: closed.collect(), last }
    }
}
