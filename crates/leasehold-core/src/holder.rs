//! The holders of a lease, and its waiters.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::name::{InvalidInput, as_text};
use crate::setters::{setters, words};
use crate::text::show_duration;
use crate::time::{Now, micros};
use crate::token::FencingToken;

/// The largest size of host and label together, in bytes: they are stored with every hold and every
/// waiter.
pub const MAX_INFO_BYTES: usize = 1024;

/// The id of a client of a store, drawn at random, so that no two are ever the same. Its text has
/// 32 hex digits, in `Debug`, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct ClientId(pub u128);

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for ClientId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let digits = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = if digits { u128::from_str_radix(text, 16).ok() } else { None };
        number
            .map(Self)
            .ok_or_else(|| InvalidInput::new("client", format!("{text:?} is not 32 hex digits")))
    }
}

/// The id of one acquire call of one client, the same across its retries. Its text is `<32
/// hex>-<decimal>`, in `Debug`, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct HolderId {
    /// The client that made the call.
    pub client: ClientId,
    /// The number of the call among the calls of that client; below 2⁵³.
    pub attempt: u64,
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.client, self.attempt)
    }
}

impl FromStr for HolderId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let read = |(client, attempt): (&str, &str)| {
            Some(Self { client: client.parse().ok()?, attempt: attempt.parse().ok()? })
        };
        let wrong = || format!("{text:?} is not `<32 hex digits>-<number>`");
        text.split_once('-').and_then(read).ok_or_else(|| InvalidInput::new("holder", wrong()))
    }
}

as_text!(ClientId, HolderId);

/// The mode of a lease: all of a lock, a share of it, or some of a semaphore's permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Mode {
    /// Alone: a mutex, or the writer of a read/write lock.
    Exclusive,
    /// `count` of the `capacity` permits of a semaphore.
    Permits {
        /// The number of permits to take.
        count: u32,
        /// The number of all permits.
        capacity: u32,
    },
    /// Together with other readers.
    Shared,
}

/// The capacity of the record of a mutex or read/write lock: an exclusive grant takes all of it, a
/// shared one takes 1. A semaphore's capacity is smaller.
pub const LOCK_CAPACITY: u32 = i32::MAX as u32;

impl Mode {
    words! {
        Self::Exclusive => "exclusive",
        Self::Permits { .. } => "permits",
        Self::Shared => "shared",
    }

    /// How much of the capacity this mode takes.
    pub const fn weight(self) -> u32 {
        match self {
            Self::Exclusive => LOCK_CAPACITY,
            Self::Permits { count, .. } => count,
            Self::Shared => 1,
        }
    }

    /// The capacity that a record must have for this mode to be granted.
    pub const fn capacity(self) -> u32 {
        match self {
            Self::Exclusive | Self::Shared => LOCK_CAPACITY,
            Self::Permits { capacity, .. } => capacity,
        }
    }

    /// The mode that takes `weight` of `capacity`: the inverse of [`weight`](Self::weight) and
    /// [`capacity`](Self::capacity).
    pub const fn of(weight: u32, capacity: u32) -> Self {
        match (weight, capacity) {
            (LOCK_CAPACITY, LOCK_CAPACITY) => Self::Exclusive,
            (_, LOCK_CAPACITY) => Self::Shared,
            (count, capacity) => Self::Permits { count, capacity },
        }
    }

    /// Of the given holds on a name, the first one that must end before this mode is granted, even
    /// if all other holders release. A reader does not block another reader, unless a writer waits
    /// between them.
    pub fn held_up_by(
        self,
        held: impl Iterator<Item = Self> + Clone,
        writer_waits: bool,
    ) -> Option<usize> {
        let taken: u64 = held.clone().map(|mode| u64::from(mode.weight())).sum();
        let fits = taken + u64::from(self.weight()) <= u64::from(self.capacity());
        let blocks = |held: Self| match (held, self) {
            (Self::Shared, Self::Shared) => writer_waits,
            (Self::Permits { .. }, Self::Permits { .. }) => !fits,
            _ => true,
        };
        held.into_iter().position(blocks)
    }

    /// Checks that the count is at least one and at most the capacity.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] says which number is out of range.
    pub fn check(self) -> Result<(), InvalidInput> {
        let Self::Permits { count, capacity } = self else { return Ok(()) };
        if capacity == 0 || capacity >= LOCK_CAPACITY {
            let why = format!("a semaphore's capacity is {capacity}: give 1 to 2147483646");
            return Err(InvalidInput::new("capacity", why));
        }
        if count == 0 || count > capacity {
            let why = format!("{count} permits of {capacity} are asked for: give 1 to {capacity}");
            return Err(InvalidInput::new("permits", why));
        }
        Ok(())
    }
}

/// The facts about a holder or a waiter, for an operator: host, process and label. At most 1 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[non_exhaustive]
pub struct HolderInfo {
    /// The name of the machine.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
    /// The label that the program gave.
    pub label: Option<String>,
    /// How the lease was passed on. The field is one pointer, because the facts are copied with
    /// every request. Operators see it in the holder's token and start.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) passed_on: Option<Box<PassedOn>>,
}

/// The facts by which a lease that was passed on inside a process differs from its grant. The store
/// records only the grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PassedOn {
    /// The number of times that the lease was passed on since its grant.
    pub times: u16,
    /// The time from the grant until the lease was last passed on, in whole microseconds.
    pub after: Duration,
}

impl HolderInfo {
    /// A process without a label.
    pub fn new(host: impl Into<String>, pid: u32) -> Self {
        Self { host: host.into(), pid, label: None, passed_on: None }
    }

    setters! {
        with_label: label: Option<String>,
    }

    /// The process in words, for people: its host and number, or the attempt `id` while nothing is
    /// known about it.
    pub fn process(&self, id: HolderId) -> String {
        match self.host.is_empty() && self.pid == 0 {
            true => id.to_string(),
            false => format!("{}:{}", self.host, self.pid),
        }
    }

    /// The process in words, with the label in brackets.
    pub fn in_words(&self, id: HolderId) -> String {
        let label = self.label.as_deref().map(|label| format!(" ({label})"));
        self.process(id) + &label.unwrap_or_default()
    }

    /// How many times the lease was passed on inside its process, and when the last time was.
    pub fn passed_on(&self) -> PassedOn {
        self.passed_on.as_deref().copied().unwrap_or_default()
    }

    /// The same facts, of a lease that was passed on.
    #[must_use]
    pub fn with_passed_on(mut self, passed_on: PassedOn) -> Self {
        let after = Duration::from_micros(micros(passed_on.after));
        let whole = PassedOn { after, ..passed_on };
        self.passed_on = (whole.times > 0).then(|| Box::new(whole));
        self
    }

    /// Checks the sizes, and that the texts have no control characters.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] for a label (or host) that is too long or would disturb a terminal.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let label = self.label.as_deref().unwrap_or_default();
        let bytes = self.host.len() + label.len();
        if bytes > MAX_INFO_BYTES {
            let why = format!("host and label have {bytes} bytes: the limit is {MAX_INFO_BYTES}");
            return Err(InvalidInput::new("label", why));
        }
        if self.host.chars().chain(label.chars()).any(char::is_control) {
            return Err(InvalidInput::new("label", "a label has a control character: remove it"));
        }
        Ok(())
    }
}

/// The state of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldState {
    /// The hold lasts until its deadline, and its holder may renew it.
    Claimed,
    /// The hold was released, but the name stays taken, by nobody, until the deadline.
    Cooldown,
    /// An operator has asked the holder to stop; the hold can no longer be renewed.
    Revoked,
}

/// A holder of a lease, as an operator sees it. A snapshot: stale once read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The acquire call that was granted.
    pub id: HolderId,
    /// The mode of the lease.
    pub mode: Mode,
    /// The state of the hold.
    pub state: HoldState,
    /// The token of the holder: that of the grant, or a higher one if the lease was passed on
    /// since. `None` during the first 100 ms or so, until the holder has told the store.
    pub token: Option<FencingToken>,
    /// The facts about the holder.
    pub info: HolderInfo,
    /// The time for which the holder has had the lease; zero if the token is not known.
    pub held_for: Duration,
    /// The time until the store ends the lease, unless it is renewed.
    pub ttl_left: Duration,
}

impl Holder {
    /// A confirmed hold that was granted just now, without other facts about its holder.
    pub fn new(id: HolderId, mode: Mode, token: Option<FencingToken>) -> Self {
        Self {
            id,
            mode,
            state: HoldState::Claimed,
            token,
            info: HolderInfo::default(),
            held_for: Duration::ZERO,
            ttl_left: Duration::ZERO,
        }
    }

    setters! {
        with_state: state: HoldState,
        with_info: info: HolderInfo,
        with_held_for: held_for: Duration,
        with_ttl_left: ttl_left: Duration,
    }

    /// The present holder at a store's `now`, computed from a holder whose token is still that of
    /// the grant.
    #[must_use]
    pub fn seen_at(mut self, now: Now) -> Self {
        let PassedOn { times, after } = self.info.passed_on();
        if let Some(grant) = self.token {
            self.token = Some(grant.passed_on(times).unwrap_or(grant));
            let since_us = now.token_us.saturating_sub(grant.micros());
            self.held_for = Duration::from_micros(since_us).saturating_sub(after);
        }
        self
    }
}

/// A waiter for a lease, as an operator sees it. A snapshot: stale once read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiter {
    /// The acquire call that waits.
    pub id: HolderId,
    /// The mode that it asks for.
    pub mode: Mode,
    /// The facts about the waiter.
    pub info: HolderInfo,
    /// The time since it joined the queue.
    pub waited: Duration,
    /// The place in the queue: 1 is next.
    pub position: u32,
}

impl Waiter {
    /// The waiter at this place of the queue.
    pub fn new(
        id: HolderId,
        mode: Mode,
        info: HolderInfo,
        waited: Duration,
        position: u32,
    ) -> Self {
        Self { id, mode, info, waited, position }
    }
}

/// The last run that has succeeded under a name. A snapshot: stale once read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastHolder {
    /// The acquire call that was granted.
    pub id: HolderId,
    /// The token of the grant.
    pub token: FencingToken,
    /// The facts about the holder.
    pub info: HolderInfo,
    /// The time since the release.
    pub ended_ago: Duration,
}

impl LastHolder {
    /// A run that released the name `ended_ago`.
    pub fn new(id: HolderId, token: FencingToken, info: HolderInfo, ended_ago: Duration) -> Self {
        Self { id, token, info, ended_ago }
    }
}

impl fmt::Display for LastHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, ago) = (self.info.in_words(self.id), show_duration(self.ended_ago));
        write!(f, "done {ago} ago by {who}, token {}", self.token)
    }
}

/// A holder that is not a client of leasehold: a program in another language that shares the name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignHolder {
    /// The mode: alone, or together with other readers.
    pub mode: Mode,
    /// The beginning of the value that the holder has written.
    pub value: String,
    /// The time until the store ends the hold, unless it is renewed; `None` if only its holder can
    /// end it.
    pub ttl_left: Option<Duration>,
}

impl ForeignHolder {
    /// A holder in the exclusive mode, without other facts.
    pub fn new(value: impl Into<String>, ttl_left: Option<Duration>) -> Self {
        Self { mode: Mode::Exclusive, value: value.into(), ttl_left }
    }

    setters! {
        with_mode: mode: Mode,
    }
}

/// The holders and the waiters of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// A holder that is not a client of leasehold. Such a holder and others hold together only if
    /// the layout shares readers with programs in other languages.
    pub foreign: Option<ForeignHolder>,
    /// The holders, in no particular order.
    pub holders: Vec<Holder>,
    /// The first waiters, in the order in which they will be served.
    pub waiters: Vec<Waiter>,
    /// The number of all waiters.
    pub waiting: u32,
    /// The last run that has succeeded, if it was one of those that are wanted once in a while
    /// ([`once_per`](crate::LeaseOptions::once_per)).
    pub last_holder: Option<LastHolder>,
    /// Why the store does not grant a free name yet: descriptions of open transactions of a
    /// PostgreSQL database that have passed the fence of the name. On other stores it is empty.
    pub held_back: Vec<String>,
}

impl Status {
    setters! {
        with_foreign: foreign: Option<ForeignHolder>,
        with_holders: holders: Vec<Holder>,
        with_waiters: waiters: Vec<Waiter>,
        with_waiting: waiting: u32,
        with_last_holder: last_holder: Option<LastHolder>,
    }

    /// Whether nobody holds the name.
    pub fn is_free(&self) -> bool {
        self.holders.is_empty() && self.foreign.is_none()
    }
}

#[cfg(test)]
mod tests;
