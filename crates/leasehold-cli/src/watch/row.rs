//! The known state of one lock.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold::admin::{HolderId, Status};
use leasehold::error::StoreError;
use leasehold::{Error, LockName};

use super::change::{Change, Event, EventKind, events, is_alike, millis};
use super::history::History;

/// New holds (entries) are counted over 2 minutes.
const ENTRIES_MS: u64 = 120_000;

/// How long a released name is still looked at as often as a held name: a minute, because many
/// locks are held again and again for a moment.
const RECENT_MS: u64 = 60_000;

/// The result of a look at one lock: its status, or the reason why the store refuses only this
/// name.
pub type Look = Result<Status, StoreError>;

/// Separates a refusal of only this name from trouble with the store.
///
/// # Errors
///
/// If there is trouble with the store.
pub fn look(outcome: Result<Status, Error>) -> Result<Look, Error> {
    match outcome {
        Ok(status) => Ok(Ok(status)),
        Err(Error::Store(error)) if !error.kind().is_outage() => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// A lock at the time of the last look.
#[derive(Clone, Debug)]
pub struct Row {
    /// The holders and waiters; none while the record cannot be read.
    pub status: Status,
    /// The reason why the record cannot be read, if there is one.
    pub unreadable: Option<StoreError>,
    /// The time of the last look, in milliseconds since 1970.
    pub seen_ms: u64,
    /// The history of the last minutes.
    pub history: History,
    /// When the lock was first looked at.
    first_ms: u64,
    /// When the lock was last held or awaited; zero for never.
    pub(super) used_ms: u64,
    /// The hold that was released last, and the time in milliseconds since 1970. It stays known
    /// after the store has forgotten it.
    released: Option<(HolderId, u64)>,
    /// The number of holds that began, each with the time when that was noticed.
    entries: VecDeque<(u64, u32)>,
    /// When the next look is due.
    pub(super) due_ms: u64,
}

/// The classes of locks by how often they are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Interest {
    /// Nobody holds the lock or has held it for a while.
    Idle,
    /// A client holds the lock, or did so a moment ago.
    Held,
    /// A client waits for the lock.
    Awaited,
}

impl Row {
    /// The row of a lock that was not looked at yet.
    pub fn new(now_ms: u64) -> Self {
        Self {
            status: Status::default(),
            unreadable: None,
            seen_ms: 0,
            history: History::default(),
            first_ms: now_ms,
            used_ms: 0,
            released: None,
            entries: VecDeque::new(),
            due_ms: now_ms,
        }
    }

    /// Records the result of a look. Returns the change, if anything but the time has changed.
    pub fn saw(&mut self, name: &LockName, look: Look, now_ms: u64) -> Option<Change> {
        let events = match look {
            Ok(status) => self.is_as(status, now_ms),
            Err(why) => self.cannot_be_read(why, now_ms),
        };
        events.map(|events| Change { name: name.clone(), events })
    }

    /// Records the status of the lock. If anything but the time has changed, returns the holds that
    /// have begun or ended.
    fn is_as(&mut self, status: Status, now_ms: u64) -> Option<Vec<Event>> {
        let events = events(&self.status, &status, now_ms);
        let begun = events.iter().filter(|event| event.kind != EventKind::Released).count();
        // A holder that was there at the first look may have begun long before, so it does not
        // count as a new hold.
        if begun > 0 && self.seen_ms > 0 {
            self.entries.push_back((now_ms, u32::try_from(begun).unwrap_or(u32::MAX)));
        }
        while self.entries.front().is_some_and(|(at_ms, _)| at_ms + ENTRIES_MS < now_ms) {
            self.entries.pop_front();
        }
        let was_readable = self.unreadable.take().is_none();
        if !was_readable {
            self.history.end_others(&status, now_ms);
        }
        self.history.note(&events, &status, now_ms);
        self.note_release(&status, now_ms);
        let is_alike = was_readable && is_alike(&self.status, &status);
        let was_used = self.is_used();
        (self.status, self.seen_ms) = (status, now_ms);
        if was_used || self.is_used() {
            self.used_ms = now_ms;
        }
        (!is_alike).then_some(events)
    }

    /// Records when the last holder gave the lock back, only once for each holder. A second look
    /// would compute a slightly different time.
    fn note_release(&mut self, status: &Status, now_ms: u64) {
        let Some(last) = &status.last_holder else { return };
        if self.released.is_none_or(|(id, _)| id != last.id) {
            self.released = Some((last.id, now_ms.saturating_sub(millis(last.ended_ago))));
        }
    }

    /// Records that the record cannot be read, so that the holder is unknown. If that is new,
    /// returns an empty list of events.
    fn cannot_be_read(&mut self, why: StoreError, now_ms: u64) -> Option<Vec<Event>> {
        let before = self.unreadable.as_ref().map(ToString::to_string);
        let is_alike = before == Some(why.to_string());
        (self.status, self.unreadable) = (Status::default(), Some(why));
        (self.seen_ms, self.used_ms) = (now_ms, now_ms);
        (!is_alike).then(Vec::new)
    }

    /// Whether the lock was held or awaited at the last look. While the record cannot be read, the
    /// lock counts as used.
    pub fn is_used(&self) -> bool {
        !self.status.is_free() || self.status.waiting > 0 || self.unreadable.is_some()
    }

    pub(super) fn interest(&self, now_ms: u64) -> Interest {
        if self.status.waiting > 0 {
            return Interest::Awaited;
        }
        match self.seen_ms == 0 || self.used_ms + RECENT_MS > now_ms {
            true => Interest::Held,
            false => Interest::Idle,
        }
    }

    /// When the oldest present hold began, in milliseconds since 1970.
    pub fn held_since_ms(&self) -> Option<u64> {
        let longest = self.status.holders.iter().map(|holder| holder.held_for).max()?;
        Some(self.seen_ms.saturating_sub(millis(longest)))
    }

    /// When the longest present wait began.
    pub fn waited_since_ms(&self) -> Option<u64> {
        let longest = self.status.waiters.iter().map(|waiter| waiter.waited).max()?;
        Some(self.seen_ms.saturating_sub(millis(longest)))
    }

    /// When a holder last gave the lock back, in milliseconds since 1970, as far as the lock was
    /// watched. A hold that ended in another way does not count.
    pub fn released_ms(&self) -> Option<u64> {
        self.released.map(|(_, at_ms)| at_ms)
    }

    /// How long ago the lock was looked at.
    pub fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.seen_ms))
    }

    /// How many holds began each second of the last two minutes, as far as the lock was watched.
    /// Some holds that are shorter than the time between two looks are not seen.
    pub fn entries_per_second(&self, now_ms: u64) -> f64 {
        let watched_ms = now_ms.saturating_sub(self.first_ms).clamp(1_000, ENTRIES_MS);
        let since_ms = now_ms.saturating_sub(ENTRIES_MS);
        let recent = self.entries.iter().filter(|(at_ms, _)| *at_ms >= since_ms);
        let count: u32 = recent.map(|(_, count)| count).sum();
        f64::from(count) * 1000.0 / watched_ms as f64
    }
}
