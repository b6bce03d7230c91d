//! What the model says, in the words of the scripts.

use leasehold_core::{HolderId, HolderInfo, Mode};

use super::model::{Hold, Record, State};

pub(super) fn attempt(id: HolderId) -> String {
    format!("{:022}.{}", id.client.0, id.attempt)
}

pub(super) fn facts(info: &HolderInfo) -> String {
    match info == &HolderInfo::default() {
        true => String::new(),
        false => format!("{} {}", info.host, info.pid),
    }
}

fn what(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "*".to_owned(),
        mode => format!("{}/{}", mode.weight(), mode.capacity()),
    }
}

/// What the store must know of an attempt that waits, or shares.
pub(super) fn request(id: HolderId, mode: Mode, info: &HolderInfo) -> String {
    [attempt(id), what(mode), facts(info)].join(" ").trim_end().to_owned()
}

fn hold(state: char, hold: &Hold) -> String {
    let token = hold.token.map(|token| token.to_string()).unwrap_or_default();
    format!("{state} {} {token} {}", attempt(hold.id), facts(&hold.info)).trim_end().to_owned()
}

/// The value of the gate while nobody awaits its holder.
pub(super) fn held(holder: &Hold) -> String {
    hold('h', holder)
}

/// All keys of a name but for their expiry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) gate: Option<String>,
    /// Places and requests, in order.
    pub(super) queue: Vec<(String, String)>,
    /// Requests of shared holds.
    pub(super) shares: Vec<String>,
    pub(super) closed: Vec<String>,
}

impl Keys {
    pub(super) fn of(record: &Record) -> Self {
        let gate = record.gate.as_ref().map(|gate| match &gate.state {
            State::Held(holder) => held(holder),
            State::Awaited(holder) => hold('w', holder),
            State::Revoked(holder) => hold('r', holder),
            State::Shared { capacity } => format!("s {} {capacity}", record.used()),
            State::Cooling { until_ms, last } => {
                let last = last.as_ref().map(|last| {
                    format!(" {} {} {}", attempt(last.id), last.ended_ms, facts(&last.info))
                });
                format!("k {until_ms}{}", last.unwrap_or_default())
            }
            State::Closed => "x".to_owned(),
        });
        let queue = record.queue.iter().map(|(place, waiter)| {
            (place.to_string(), request(waiter.id, waiter.mode, &waiter.info))
        });
        let capacity = match record.gate.as_ref().map(|gate| &gate.state) {
            Some(State::Shared { capacity }) => *capacity,
            _ => 0,
        };
        let shares = record
            .shares
            .iter()
            .map(|(id, share)| request(*id, Mode::of(share.weight, capacity), &share.info));
        let mut shares: Vec<_> = shares.collect();
        shares.sort_unstable();
        let closed = record.closed.iter().copied().map(attempt);
        Self { gate, queue: queue.collect(), shares, closed: closed.collect() }
    }
}
