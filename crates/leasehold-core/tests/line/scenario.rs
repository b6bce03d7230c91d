//! The bounds of a search, and what may happen within them.

/// What is taken away to see that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// A line that is left by its last caller does not cancel what it asked for.
    Cancel,
    /// A line that yields asks again with the attempt that it has just ended.
    NewAttempt,
    /// A line that yields does not release what it had.
    Release,
    /// A caller that gives up takes its attempt with it.
    TakeOver,
    /// The next caller of a passed lease has the token of the grant.
    Tokens,
    /// The next caller of a passed lease does not know when it ends.
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
    /// Nobody gives up or stops, nothing is lost but messages; leases are long.
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

    /// One line, with nobody in its way.
    pub(crate) fn alone() -> Self {
        Self { visits: [[1, 1], [0, 0]], ..Self::calm() }
    }

    pub(crate) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A caller of a line wants the lock.
    Begin(u8, u8),
    /// It does so no more.
    Drop(u8, u8),
    /// The store executes a request; its answer arrives, or the request is sent again.
    Execute {
        index: usize,
        is_answered: bool,
    },
    /// A message arrives.
    Hear(usize),
    /// The holder of a line lets go.
    LetGo(u8),
    Resume(u8),
    Stop(u8),
    /// A second passes.
    Tick,
}
