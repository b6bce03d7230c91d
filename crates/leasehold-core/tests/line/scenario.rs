//! The bounds of a search, and the possible events within them.

/// A protection that is taken away, to show that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Without it, a line whose last caller leaves does not cancel its request.
    Cancel,
    /// Without it, a line that yields asks again with the attempt that it has just ended.
    NewAttempt,
    /// Without it, a line that yields does not release its lease.
    Release,
    /// Without it, a caller that gives up takes its attempt with it.
    TakeOver,
    /// Without it, the next caller of a passed lease has the token of the grant.
    Tokens,
    /// Without it, the next caller of a passed lease does not know when the lease ends.
    Validity,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// How often each caller of each line comes.
    pub(crate) visits: [[u8; 2]; 2],
    pub(crate) ttl: u64,
    /// The last second.
    pub(crate) end: u64,
    /// Seconds within which a caller must be served.
    pub(crate) patience: u64,
    /// How many callers give up.
    pub(crate) drops: u8,
    /// How many clients stop, with all their callers, and go on later or never.
    pub(crate) stops: u8,
    /// How many answers are lost, so that the request is sent again.
    pub(crate) losses: u8,
    pub(crate) without: Option<Protection>,
}

impl World {
    /// Leases are long. Messages are lost, but nobody gives up or stops.
    pub(crate) fn calm() -> Self {
        Self {
            visits: [[1, 1], [1, 1]],
            ttl: 30,
            end: 7,
            patience: 6,
            drops: 0,
            stops: 0,
            losses: 0,
            without: None,
        }
    }

    /// Leases that end within the search.
    pub(crate) fn short() -> Self {
        Self { ttl: 2, end: 4, visits: [[1, 1], [1, 0]], ..Self::calm() }
    }

    /// One line, without another one.
    pub(crate) fn alone() -> Self {
        Self { visits: [[1, 1], [0, 0]], ..Self::calm() }
    }

    pub(crate) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A caller of a line wants the lock.
    Begin(u8, u8),
    /// A caller does not want the lock any more.
    Drop(u8, u8),
    /// The store executes a request; its answer arrives, or the request is sent again.
    Execute {
        index: usize,
        is_answered: bool,
    },
    /// A message arrives.
    Hear(usize),
    /// The holder of a line releases.
    LetGo(u8),
    Resume(u8),
    Stop(u8),
    /// A second passes.
    Tick,
}
