//! What was written of one round, as it was written.

use std::str::{FromStr, Split};

/// Something that must not be.
#[derive(Clone, Debug)]
pub(super) struct Violation {
    /// Which check.
    pub(super) check: &'static str,
    pub(super) what: String,
    /// From when to when it can be seen.
    pub(super) window: (u64, u64),
}

impl Violation {
    pub(super) fn new(check: &'static str, what: String, window: (u64, u64)) -> Self {
        Self { check, what, window }
    }
}

/// A span in which a guard was held, by its own words.
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

/// A grant: when it was asked for, by when it had come, and which process asked.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) guard: u64,
    pub(super) asked: u64,
    pub(super) entered: u64,
    pub(super) token: u64,
    pub(super) client: u128,
    pub(super) attempt: u64,
}

/// Everything that was written of one name.
#[derive(Debug, Default)]
pub(super) struct Story {
    pub(super) promises: Vec<Promise>,
    pub(super) grants: Vec<Grant>,
    /// When something was asked for, and when it was given up.
    pub(super) given_up: Vec<(u64, u64)>,
    pub(super) updates: Vec<Update>,
    /// Queues as somebody saw them.
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
}

impl Promise {
    pub(super) fn read(words: &mut Split<'_, char>) -> Option<Self> {
        let (guard, lineage) = (number(words)?, number(words)?);
        let (from, to, token) = (number(words)?, number(words)?, number(words)?);
        let (weight, capacity) = (number(words)?, number(words)?);
        Some(Self { guard, lineage, from, to, token, weight, capacity })
    }
}

/// Reading a value and writing another.
#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) value: u64,
    pub(super) invoked: u64,
    pub(super) token: u64,
    /// When, and the value before; none if its process was killed.
    pub(super) returned: Option<(u64, u64)>,
}

impl Update {
    pub(super) fn read(words: &mut Split<'_, char>) -> Option<Self> {
        let (value, invoked, token) = (number(words)?, number(words)?, number(words)?);
        Some(Self { value, invoked, token, returned: None })
    }

    /// When it was over, as far as that is known.
    pub(super) fn end(&self) -> u64 {
        self.returned.map_or(self.invoked, |(at, _)| at)
    }
}

/// Who waited, in the order of the queue: client, attempt, and since when at least.
pub(super) type Queue = Vec<(u128, u64, u64)>;

/// An answer to who leads: the token, and when that was asked.
pub(super) type Led = (u64, u64);

/// Reads a queue that somebody saw.
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

/// The next word, a number.
pub(super) fn number<T: FromStr>(words: &mut Split<'_, char>) -> Option<T> {
    words.next()?.parse().ok()
}
