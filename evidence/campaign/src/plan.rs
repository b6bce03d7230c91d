//! How much is done on a store, and with what.

use std::time::Duration;

/// What one run does. Times are as short as the store can do with, so that much happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Processes; one can only be stopped, of several some are killed as well.
    pub(crate) processes: usize,
    /// Clients of each process, and tasks of each client.
    pub(crate) clients: usize,
    pub(crate) tasks: usize,
    /// Names of mutexes and read/write locks, and of semaphores.
    pub(crate) names: usize,
    pub(crate) semaphores: usize,
    pub(crate) ttls: [Duration; 3],
    /// In how many of a hundred cases a lease is held for long: up to this.
    pub(crate) lingering: usize,
    pub(crate) longest: Duration,
    pub(crate) modes: Modes,
    /// Elections; none where a leader cannot say anything.
    pub(crate) elections: usize,
    /// Nothing that was granted or queued is forgotten, whatever befalls the place.
    pub(crate) keeps: bool,
    /// Jobs that run once in a period; none where an end that was reported may be forgotten.
    pub(crate) jobs: usize,
    /// Stock is sold there, too, and a queue and cells are used.
    pub(crate) sells: bool,
    /// The kinds of numbers that are given out there.
    pub(crate) numbers: &'static [Sequence],
}

/// What a store grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modes {
    /// Everything there is.
    All,
    /// Readers, and writers, each of whom stays what it is.
    Fixed,
    /// Mutexes only.
    Mutexes,
}

/// A kind of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// In blocks, above a floor that grows with the clock.
    Blocks,
    /// The same one by one, in the order in which they are given out.
    Increasing,
    /// One by one from one, without a floor.
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

/// How long the quarantine of one server is: as long as the longest lease there.
pub(crate) const QUARANTINE: Duration = Duration::from_secs(1);

/// The permits of each semaphore.
pub(crate) const PERMITS: u32 = 4;

/// Values that are read and written each under its own lock.
pub(crate) const REGISTERS: usize = 8;

/// Jobs where there are any.
pub(crate) const JOBS: usize = 6;

/// Numbers of all kinds, those that survive all that is forgotten, and those that need no clock.
pub(crate) const ALL_NUMBERS: [Sequence; 3] =
    [Sequence::Blocks, Sequence::Increasing, Sequence::Short];
pub(crate) const LASTING_NUMBERS: [Sequence; 2] = [Sequence::Blocks, Sequence::Increasing];
pub(crate) const CLOCKLESS_NUMBERS: [Sequence; 1] = [Sequence::Short];

/// Values of that kind in cells beside the locks.
pub(crate) const CELLS: usize = 4;

/// What all names begin with.
pub(crate) const PREFIX: &str = "campaign/";

/// The lock of who does what is in the queue.
pub(crate) const QUEUE: &str = "campaign/q";

impl Plan {
    /// For stores on which a lease may be as short as it can be.
    pub(crate) const QUICK: Self = Self {
        processes: 4,
        clients: 2,
        tasks: 24,
        names: 80,
        semaphores: 16,
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

    /// For stores of which a part is away now and then, for longer than a short lease; with few
    /// names, and leases held long, so that each name has waiters in every client.
    pub(crate) const SLOW: Self = Self {
        names: 24,
        semaphores: 6,
        ttls: [Duration::from_millis(2000), Duration::from_millis(2500), Duration::from_secs(3)],
        lingering: 60,
        longest: Duration::from_millis(300),
        ..Self::QUICK
    };

    /// The same with as many names as where leases are short, so that much is done in a short time.
    pub(crate) const WIDE: Self = Self {
        names: Self::QUICK.names,
        semaphores: Self::QUICK.semaphores,
        lingering: 5,
        ..Self::SLOW
    };

    /// The same where nothing that was said is forgotten.
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

    /// The name of a value in a cell.
    pub(crate) fn cell(number: usize) -> String {
        format!("{PREFIX}c{number}")
    }

    /// The name of a value that is read and written.
    pub(crate) fn register(number: usize) -> String {
        format!("{PREFIX}r{number}")
    }

    /// The longest lease.
    pub(crate) fn longest_ttl(&self) -> Duration {
        self.ttls[2]
    }
}
