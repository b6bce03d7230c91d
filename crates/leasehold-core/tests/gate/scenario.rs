//! The bounds of a search, and the possible events within them.

use leasehold_core::model::Times;

/// A rule that is taken away, to show that the search notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A message counts from the store's time of the grant. Without it, from its arrival.
    AgeOfMessage,
    /// Any client that asks when nobody holds hands the name to the first waiter. Without it, only
    /// the first waiter is served.
    AnyAskServes,
    /// An attempt that has ended is remembered while copies of its requests may arrive.
    ClosedIsKept,
    /// A description changes what the gate says about its holder, and not its state.
    DescriptionIsBlind,
    /// A lease whose validity was over at its client is over.
    EndIsFinal,
    /// Who is revoked by force is remembered as ended.
    ForceCloses,
    /// A copy of a request gets the token of the grant again.
    OneToken,
    /// A queue ends with the waiters in it.
    QueueEnds,
    /// An attempt with a request that was not answered ends by the script.
    QuickEndNeedsAnswers,
    /// The second copy of a cancel closes.
    SecondCancelCloses,
}

/// The bounds of the search.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) clients: usize,
    pub(crate) ttl: u64,
    pub(crate) times: Times,
    /// How often a client gives a connection up.
    pub(crate) reconnects: u8,
    /// How many clients die.
    pub(crate) deaths: u8,
    /// How often an operator revokes by force.
    pub(crate) revokes: u8,
    /// Whether holders renew, once, and describe their hold.
    pub(crate) keeps: bool,
    /// Whether time waits for the requests of clients that live: then nobody overtakes.
    pub(crate) is_timely: bool,
    pub(crate) without: Option<Rule>,
}

impl World {
    pub(crate) fn two() -> Self {
        Self {
            clients: 2,
            ttl: 2,
            times: Times { closed_ms: 3, grace_ms: 3, ask_ms: 1, queue_ms: 3, window_ms: 1 },
            reconnects: 0,
            deaths: 0,
            revokes: 0,
            keeps: false,
            is_timely: false,
            without: None,
        }
    }

    pub(super) fn has(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// A waiter asks again.
    Ask(u8),
    /// A client asks for the name, by one command or by the script.
    Begin {
        client: u8,
        is_quick: bool,
    },
    Execute {
        index: usize,
        is_answered: bool,
    },
    Die(u8),
    /// A client gives up its connection, and the attempt with it.
    GiveUp(u8),
    /// A message arrives.
    Hear(usize),
    Keep(u8),
    /// A client ends what it has, or stops waiting for it.
    Leave(u8),
    /// A client gives up its connection and sends its request again.
    Reconnect(u8),
    /// An operator ends the hold that the gate names.
    Revoke,
    Tick,
}
