//! The bounds of a search, and the possible events within them.

/// A protection that is taken away, to show that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Without it, a grant that nobody confirms stands for the whole ttl.
    ClaimWindow,
    /// Without it, waiters rely on their message.
    Poll,
    /// Without it, the record forgets attempts that have ended.
    Tombstone,
    /// Without it, a message is believed however late it comes.
    Validity,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clients: usize,
    pub(crate) ttl: u64,
    /// The last second.
    pub(crate) end: u64,
    /// Seconds within which a waiter that keeps asking must be served.
    pub(crate) patience: u64,
    /// How many clients stop, with or without going on later.
    pub(crate) stops: u8,
    /// Whether a client may also stop while it holds.
    pub(crate) holders_stop: bool,
    /// How many clients change their mind.
    pub(crate) cancels: u8,
    /// How many replies are lost, so that the request is sent again.
    pub(crate) losses: u8,
    /// How many second copies of an acquire may be under way for any time.
    pub(crate) copies: u8,
    pub(crate) without: Option<Protection>,
}

impl World {
    /// Leases are long. Messages are lost, but nobody stops or changes its mind.
    pub(crate) fn calm() -> Self {
        Self {
            clients: 3,
            ttl: 30,
            end: 7,
            patience: 5,
            stops: 0,
            holders_stop: false,
            cancels: 0,
            losses: 0,
            copies: 0,
            without: None,
        }
    }

    pub(super) fn has(&self, protection: Protection) -> bool {
        self.without != Some(protection)
    }
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A client asks for the lock.
    Begin(u8),
    /// A waiter changes its mind.
    Cancel(u8),
    /// The acquire is sent a second time, and this copy may arrive at any time.
    Copy(u8),
    /// The store executes a request; without an answer it is sent again.
    Execute {
        index: usize,
        is_answered: bool,
    },
    /// A message arrives, perhaps again later.
    Hear {
        index: usize,
        is_last: bool,
    },
    /// A holder has done its work.
    Leave(u8),
    Resume(u8),
    Stop(u8),
    /// A second passes.
    Tick,
}
