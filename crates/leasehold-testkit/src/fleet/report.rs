//! What became of a fleet.

use std::time::Duration;

use super::counts::Counts;

/// What one play of a fleet came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How much time it took, by its own clock.
    pub took: Duration,
    /// How many leases were entered.
    pub entered: u64,
    /// How many live clients asked and were not served in the end.
    pub unserved: u64,
    /// How many entered while somebody else was inside.
    pub double_holds: u64,
    /// How many entered with a token that was no higher than one before.
    pub tokens_back: u64,
    /// How many acquires failed.
    pub errors: u64,
    /// The longest that a client waited.
    pub longest_wait: Duration,
    /// The longest that a lock lay idle while somebody waited, after a kill, a loss or a failover.
    pub longest_idle: Duration,
    /// From releases to grants, sorted.
    pub hand_overs: Vec<Duration>,
    /// What all servers were asked for in the calm, for how long that lasted, and how many held and
    /// waited then on average.
    pub calm: (Counts, Duration),
    /// How many held and waited then, on average.
    pub holders: f64,
    /// How many waited.
    pub waiters: f64,
    /// The busiest server's share of its time in the calm.
    pub busiest: f64,
    /// Messages of all names in the calm.
    pub bus_messages: u64,
    /// The server that failed.
    pub failover: Failover,
    /// Commands and dials in each second of the server that failed, and of one that did not.
    pub seconds: [Vec<[u32; 2]>; 2],
    /// What befell the fleet, and when.
    pub events: Vec<(&'static str, Duration)>,
}

/// What the server that failed was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failover {
    /// Clients that held or awaited a name of it when another took over.
    pub clients: u64,
    /// Commands of its busiest second before it failed.
    pub commands_before: u32,
    /// Commands of the busiest second after another took over.
    pub commands_after: u32,
    /// Dials of the busiest second from the failure on.
    pub dials: u32,
    /// Locks of which the replica had missed something.
    pub missed: u64,
}

impl Report {
    /// The hand-over that a given number of a thousand were faster than.
    pub fn hand_over(&self, permille: usize) -> Duration {
        let last = self.hand_overs.len().saturating_sub(1);
        let index = (self.hand_overs.len() * permille / 1000).min(last);
        self.hand_overs.get(index).copied().unwrap_or_default()
    }
}
