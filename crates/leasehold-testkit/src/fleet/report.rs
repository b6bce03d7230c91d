//! The results of a fleet.

use std::time::Duration;

use super::counts::Counts;

/// The results of one run of a fleet.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How much time it took, by its own clock.
    pub took: Duration,
    /// How many leases were entered.
    pub entered: u64,
    /// How many live clients asked and were not served in the end.
    pub unserved: u64,
    /// How many grants came while another client held the lock.
    pub double_holds: u64,
    /// How many grants had a token that was no higher than an earlier token.
    pub tokens_back: u64,
    /// How many acquires failed.
    pub errors: u64,
    /// The longest that a client waited.
    pub longest_wait: Duration,
    /// The longest time that a lock was idle, with a waiter, after a kill, a loss or a failover.
    pub longest_idle: Duration,
    /// The times from releases to grants, sorted.
    pub hand_overs: Vec<Duration>,
    /// The requests to all servers in the calm, and how long the calm lasted.
    pub calm: (Counts, Duration),
    /// The average number of holders in the calm.
    pub holders: f64,
    /// The average number of waiters in the calm.
    pub waiters: f64,
    /// The busiest server's share of its time in the calm.
    pub busiest: f64,
    /// Messages of all names in the calm.
    pub bus_messages: u64,
    /// The server that failed.
    pub failover: Failover,
    /// Commands and dials in each second of the server that failed, and of one that did not.
    pub seconds: [Vec<[u32; 2]>; 2],
    /// The events of the fleet, and when they happened.
    pub events: Vec<(&'static str, Duration)>,
}

/// The requests to the server that failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failover {
    /// Clients that held or awaited a name of that server when another one took over.
    pub clients: u64,
    /// Commands of its busiest second before it failed.
    pub commands_before: u32,
    /// Commands of the busiest second after another server took over.
    pub commands_after: u32,
    /// Dials of the busiest second from the failure on.
    pub dials: u32,
    /// Locks of which the replica had missed changes.
    pub missed: u64,
}

impl Report {
    /// The time within which this many of a thousand hand-overs were done.
    pub fn hand_over(&self, permille: usize) -> Duration {
        let last = self.hand_overs.len().saturating_sub(1);
        let index = (self.hand_overs.len() * permille / 1000).min(last);
        self.hand_overs.get(index).copied().unwrap_or_default()
    }
}
