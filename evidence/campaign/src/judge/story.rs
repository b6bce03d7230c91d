//! The records of one round, as they were written.

use std::str::{FromStr, Split};

#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) check: &'static str,
    pub(super) what: String,
    /// The times between which it can be seen.
    pub(super) window: (u64, u64),
}

impl Violation {
    pub(super) fn new(check: &'static str, what: String, window: (u64, u64)) -> Self {
        Self { check, what, window }
    }
}

/// A span in which a guard said that it was held.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) guard: u64,
    pub(super) lineage: u64,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) token: u64,
    pub(super) weight: u64,
    pub(super) capacity: u64,
}

/// A grant: when it was requested, by when it had come, and which process requested it.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) guard: u64,
    pub(super) asked: u64,
    pub(super) entered: u64,
    pub(super) token: u64,
    pub(super) client: u128,
    pub(super) attempt: u64,
}

/// All records of one name.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) promises: Vec<Promise>,
    pub(super) grants: Vec<Grant>,
    /// When a request was made, and when it was given up.
    pub(super) given_up: Vec<(u64, u64)>,
    pub(super) updates: Vec<Update>,
    pub(super) queues: Vec<Queue>,
    /// Guards of jobs that have reported their end, and the period of each.
    pub(super) jobs: Vec<(u64, u64)>,
    /// The answers to questions about the leader.
    pub(super) led: Vec<Led>,
}

impl Grant {
    pub(super) fn read(words: &mut Split<'_, char>) -> Option<Self> {
        let (guard, asked, entered) = (number(words)?, number(words)?, number(words)?);
        let (token, client, attempt) = (number(words)?, number(words)?, number(words)?);
        Some(Self { guard, asked, entered, token, client, attempt })
    }

    pub(super) fn process(&self) -> u64 {
        self.guard >> 48
    }
}

impl Promise {
    pub(super) fn read(words: &mut Split<'_, char>) -> Option<Self> {
        let (guard, lineage) = (number(words)?, number(words)?);
        let (from, to, token) = (number(words)?, number(words)?, number(words)?);
        let (weight, capacity) = (number(words)?, number(words)?);
        Some(Self { guard, lineage, from, to, token, weight, capacity })
    }
}

/// An update: reading a value and writing another.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) value: u64,
    pub(super) invoked: u64,
    pub(super) token: u64,
    /// When the update returned, and the value before; `None` if its process was killed.
    pub(super) returned: Option<(u64, u64)>,
}

impl Update {
    pub(super) fn read(words: &mut Split<'_, char>) -> Option<Self> {
        let (value, invoked, token) = (number(words)?, number(words)?, number(words)?);
        Some(Self { value, invoked, token, returned: None })
    }

    /// When the update was over, as far as that is known.
    pub(super) fn end(&self) -> u64 {
        self.returned.map_or(self.invoked, |(at, _)| at)
    }
}

/// The waiters in the order of the queue: client, attempt, and the latest time of joining.
pub(super) type Queue = Vec<(u128, u64, u64)>;

/// A process that was stopped, from when until when.
pub(super) type Stop = (u64, u64, u64);

/// An answer about the leader: the token, and when it was requested.
pub(super) type Led = (u64, u64);

pub(super) fn queue(words: &mut Split<'_, char>) -> Option<Queue> {
    let mut queue = Vec::new();
    while let Some(client) = words.next() {
        queue.push((client.parse().ok()?, number(words)?, number(words)?));
    }
    Some(queue)
}

/// One fault.
#[derive(Clone, Debug)]
pub(super) struct Wound {
    pub(super) begun: u64,
    pub(super) healed: u64,
    pub(super) kind: String,
}

impl Wound {
    pub(super) fn read(rest: &str) -> Option<Self> {
        let mut words = rest.splitn(3, ' ');
        let begun = words.next()?.parse().ok()?;
        let healed = words.next()?.parse().ok()?;
        Some(Self { begun, healed, kind: words.next()?.to_owned() })
    }
}

pub(super) fn number<T: FromStr>(words: &mut Split<'_, char>) -> Option<T> {
    words.next()?.parse().ok()
}
