//! How much work is done on a store, and by which features.

use std::time::Duration;

/// The work of one run. Times are as short as the store allows, so that much happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Processes; a lone one can only be stopped, and of several, some are killed as well.
    pub(crate) processes: usize,
    /// Clients of each process, and tasks of each client.
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    /// Names of mutexes and read/write locks, and of semaphores.
    pub(crate) names: usize,
    pub(crate) semaphores: usize,
    /// In how many of a hundred turns a protected value is updated.
    pub(crate) updates: usize,
    pub(crate) ttls: [Duration; 3],
    /// In how many of a hundred cases a lease is held for long, and for how long at most.
    pub(crate) lingering: usize,
    pub(crate) longest: Duration,
    pub(crate) modes: Modes,
    /// Elections; none if a leader cannot have a value.
    pub(crate) elections: usize,
    /// No grant and no place in a queue is forgotten, whatever the faults of the place.
    pub(crate) keeps: bool,
    /// Jobs that run once in a period; none if the store may forget a reported end.
    pub(crate) jobs: usize,
    /// Whether stock is sold there, too.
    pub(crate) sells: bool,
    /// The kinds of numbers that are drawn there.
    pub(crate) numbers: &'static [Sequence],
}

/// The modes that a store grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modes {
    /// All modes.
    All,
    /// Mutexes only.
    Mutexes,
}

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// In blocks, above a floor that grows with the clock.
    Blocks,
    /// Increasing numbers one by one, in the order of the draws.
    Increasing,
    /// One by one from 1, without a floor.
    Short,
}

impl Sequence {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Increasing => "increasing",
            Self::Short => "short",
        }
    }
}

/// How long the quarantine of one server lasts: as long as the longest lease there.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(1);

pub(crate) const PERMITS: u32 = 4;

/// Values that are read and written, each under its own lock.
pub(crate) const REGISTERS: usize = 8;

pub(crate) const JOBS: usize = 6;

/// All kinds of numbers, those that survive a loss of data, and those that need no clock.
pub(crate) const ALL_NUMBERS: [Sequence; 3] =
    [Sequence::Blocks, Sequence::Increasing, Sequence::Short];
pub(crate) const LASTING_NUMBERS: [Sequence; 2] = [Sequence::Blocks, Sequence::Increasing];
pub(crate) const CLOCKLESS_NUMBERS: [Sequence; 1] = [Sequence::Short];

pub(crate) const PREFIX: &str = "campaign/";

impl Plan {
    /// For stores on which a lease may be as short as it can be.
    pub(crate) const QUICK: Self = Self {
        processes: 4,
        clients: 2,
        tasks: 24,
        names: 80,
        semaphores: 16,
        updates: 10,
        ttls: [Duration::from_millis(100), Duration::from_millis(200), Duration::from_millis(500)],
        lingering: 3,
        longest: Duration::from_millis(500),
        modes: Modes::All,
        elections: 4,
        keeps: false,
        jobs: 0,
        sells: false,
        numbers: &[],
    };

    /// For protected values in a database: only updates, by many processes.
    pub(crate) const UPDATES: Self = Self {
        processes: 9,
        clients: 1,
        tasks: 1,
        updates: 100,
        ttls: [Duration::from_secs(1); 3],
        ..Self::QUICK
    };

    /// For stores of which a part is sometimes away, for longer than a short lease. There are few
    /// names, and leases are held long, so that each name has waiters in every client.
    pub(crate) const SLOW: Self = Self {
        names: 24,
        semaphores: 6,
        ttls: [Duration::from_millis(2000), Duration::from_millis(2500), Duration::from_secs(3)],
        lingering: 60,
        longest: Duration::from_millis(300),
        ..Self::QUICK
    };

    /// The same with as many names as for short leases, so that much is done in a short time.
    pub(crate) const WIDE: Self = Self {
        names: Self::QUICK.names,
        semaphores: Self::QUICK.semaphores,
        lingering: 5,
        ..Self::SLOW
    };

    /// The same for stores that forget nothing acknowledged.
    pub(crate) const fn faithful(self) -> Self {
        Self { jobs: JOBS, sells: true, numbers: &ALL_NUMBERS, ..self }
    }

    pub(crate) fn name(number: usize) -> String {
        format!("{PREFIX}n{number}")
    }

    pub(crate) fn semaphore(number: usize) -> String {
        format!("{PREFIX}s{number}")
    }

    pub(crate) fn election(number: usize) -> String {
        format!("{PREFIX}e{number}")
    }

    pub(crate) fn job(number: usize) -> String {
        format!("{PREFIX}j{number}")
    }

    /// The name of a value that is read and written.
    pub(crate) fn register(number: usize) -> String {
        format!("{PREFIX}r{number}")
    }

    pub(crate) fn longest_ttl(&self) -> Duration {
        self.ttls[2]
    }
}
