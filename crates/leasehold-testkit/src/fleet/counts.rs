//! Counts the requests to the servers of a fleet.

use std::time::Duration;

use leasehold_core::{Action, Operation};

/// How finely rates are counted: 100 ms.
pub const SLOT: Duration = Duration::from_millis(100);

/// The requests to one server, or to several servers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Acquires: the first copies and later copies.
    pub acquires: u64,
    /// Polls of waiters.
    pub polls: u64,
    /// Renewals, each of one lease or of several.
    pub renewals: u64,
    /// Leases that were renewed.
    pub leases: u64,
    /// Releases.
    pub releases: u64,
    /// All other requests: cancellations, and requests for holders.
    pub others: u64,
    /// Messages that it published for its own names.
    pub messages: u64,
    /// Connections that were opened to it, or that failed.
    pub dials: u64,
    /// How often it was asked which server serves which names.
    pub maps: u64,
}

impl Counts {
    /// Counts one command.
    pub(super) fn add(&mut self, operation: &Operation) {
        match operation {
            Operation::Renew(leases) => {
                self.renewals += 1;
                self.leases += leases.len() as u64;
            }
            Operation::On { action: Action::Acquire(_), .. } => self.acquires += 1,
            Operation::On { action: Action::Poll { .. }, .. } => self.polls += 1,
            Operation::On { action: Action::Release { .. }, .. } => self.releases += 1,
            _ => self.others += 1,
        }
    }

    /// All commands that are scripts.
    pub const fn commands(&self) -> u64 {
        self.acquires + self.polls + self.renewals + self.releases + self.others
    }

    /// The sum of both counts.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            acquires: self.acquires + other.acquires,
            polls: self.polls + other.polls,
            renewals: self.renewals + other.renewals,
            leases: self.leases + other.leases,
            releases: self.releases + other.releases,
            others: self.others + other.others,
            messages: self.messages + other.messages,
            dials: self.dials + other.dials,
            maps: self.maps + other.maps,
        }
    }

    /// The requests since `before`.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            acquires: self.acquires - before.acquires,
            polls: self.polls - before.polls,
            renewals: self.renewals - before.renewals,
            leases: self.leases - before.leases,
            releases: self.releases - before.releases,
            others: self.others - before.others,
            messages: self.messages - before.messages,
            dials: self.dials - before.dials,
            maps: self.maps - before.maps,
        }
    }
}

/// Commands and dials of one server, slot by slot.
#[derive(Clone, Debug, Default)]
pub struct Timeline(Vec<[u32; 2]>);

impl Timeline {
    pub(super) fn command(&mut self, since_start: Duration) {
        self.slot(since_start)[0] += 1;
    }

    pub(super) fn dial(&mut self, since_start: Duration) {
        self.slot(since_start)[1] += 1;
    }

    fn slot(&mut self, since_start: Duration) -> &mut [u32; 2] {
        let slot = (since_start.as_micros() / SLOT.as_micros()) as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, [0; 2]);
        }
        &mut self.0[slot]
    }

    /// The commands and the dials of each second.
    pub fn seconds(&self) -> Vec<[u32; 2]> {
        let second = (Duration::from_secs(1).as_micros() / SLOT.as_micros()) as usize;
        let sum = |slots: &[[u32; 2]], kind: usize| slots.iter().map(|slot| slot[kind]).sum();
        self.0.chunks(second).map(|slots| [sum(slots, 0), sum(slots, 1)]).collect()
    }

    /// The most commands, and the most dials, that came in any second that begins between two
    /// times.
    pub fn peak_per_second(&self, from: Duration, until: Duration) -> [u32; 2] {
        let slot = |at: Duration| (at.as_micros() / SLOT.as_micros()) as usize;
        let second = slot(Duration::from_secs(1));
        let sum = |begin: usize, kind: usize| -> u32 {
            self.0.iter().skip(begin).take(second).map(|counted| counted[kind]).sum()
        };
        [0, 1].map(|kind| {
            (slot(from)..slot(until)).map(|begin| sum(begin, kind)).max().unwrap_or_default()
        })
    }
}
