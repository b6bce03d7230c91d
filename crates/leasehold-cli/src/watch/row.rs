//! The known state of one lock, and its words in a list.

use std::time::Duration;

use leasehold::admin::{HoldState, Holder, HolderId, HolderInfo, LeaseId, Status};
use leasehold::error::StoreError;
use leasehold::lease::Mode;
use leasehold::{Error, FencingToken, LockName};

use super::history::History;
use crate::moment::began_ms;

/// The name of a holder of which nothing else is known.
pub(crate) const ANOTHER: &str = "another program";

/// An awaited lock is looked at every second, if the budget allows it.
const AWAITED_MS: u64 = 1_000;

/// A lock that is held, or was a moment ago, is looked at every 2 seconds.
pub(super) const HELD_MS: u64 = 2_000;

/// How long a released name is still looked at as often as a held name: a minute, because many
/// locks are held again and again for a moment.
const RECENT_MS: u64 = 60_000;

/// The result of a look at one lock: its status, or the reason why the store refuses only this
/// name.
pub(crate) type Look = Result<Status, StoreError>;

/// Separates a refusal of only this name from trouble with the store.
///
/// # Errors
///
/// If there is trouble with the store.
pub(crate) fn look(outcome: Result<Status, Error>) -> Result<Look, Error> {
    match outcome {
        Ok(status) => Ok(Ok(status)),
        Err(Error::Store(error)) if !error.kind().is_outage() => Ok(Err(error)),
        Err(error) => Err(error),
    }
}

/// A lock at the time of the last look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The holders and waiters; none while the record cannot be read.
    pub(crate) status: Status,
    /// The reason why the record cannot be read, if there is one.
    pub(crate) unreadable: Option<StoreError>,
    /// The time of the last look, in milliseconds since 1970.
    pub(crate) seen_ms: u64,
    /// The history of the last minutes.
    pub(crate) history: History,
    /// When the lock was last held or awaited; zero for never.
    pub(super) used_ms: u64,
    /// The hold that was released last, and the time in milliseconds since 1970. It stays known
    /// after the store has forgotten it.
    released: Option<(HolderId, u64)>,
    /// When the next look is due.
    pub(super) due_ms: u64,
}

impl Row {
    /// The row of a lock that was not looked at yet.
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { due_ms: now_ms, ..Self::default() }
    }

    /// Records the result of a look.
    pub(crate) fn saw(&mut self, look: Look, now_ms: u64) {
        let was_used = self.is_used();
        match look {
            Ok(status) => {
                self.history.note(&status, now_ms);
                self.note_release(&status, now_ms);
                (self.status, self.unreadable) = (status, None);
            }
            // The holder is unknown, so the history waits for the next look.
            Err(why) => (self.status, self.unreadable) = (Status::default(), Some(why)),
        }
        self.seen_ms = now_ms;
        if was_used || self.is_used() {
            self.used_ms = now_ms;
        }
    }

    /// Records when the last holder gave the lock back, only once for each holder. A second look
    /// would compute a slightly different time.
    fn note_release(&mut self, status: &Status, now_ms: u64) {
        let Some(last) = &status.last_holder else { return };
        if self.released.is_none_or(|(id, _)| id != last.id) {
            self.released = Some((last.id, began_ms(now_ms, last.ended_ago)));
        }
    }

    /// Whether the lock was held or awaited at the last look. While the record cannot be read, the
    /// lock counts as used.
    pub(crate) fn is_used(&self) -> bool {
        !self.status.is_free() || self.status.waiting > 0 || self.unreadable.is_some()
    }

    /// After how long the next look is due; `None` if nobody has used the lock for a while.
    pub(super) fn interval_ms(&self, now_ms: u64) -> Option<u64> {
        let is_recent = self.seen_ms == 0 || self.used_ms + RECENT_MS > now_ms;
        let is_awaited = self.status.waiting > 0;
        if is_awaited { Some(AWAITED_MS) } else { is_recent.then_some(HELD_MS) }
    }

    /// When the oldest present hold began, in milliseconds since 1970.
    pub(crate) fn held_since_ms(&self) -> Option<u64> {
        Some(began_ms(self.seen_ms, self.longest_hold()?))
    }

    /// When the longest present wait began.
    pub(crate) fn waited_since_ms(&self) -> Option<u64> {
        Some(began_ms(self.seen_ms, self.longest_wait()?))
    }

    /// When a holder last gave the lock back, in milliseconds since 1970, as far as the lock was
    /// watched. A hold that ended in another way does not count.
    pub(crate) fn released_ms(&self) -> Option<u64> {
        self.released.map(|(_, at_ms)| at_ms)
    }

    /// How long ago the lock was looked at.
    pub(crate) fn age(&self, now_ms: u64) -> Duration {
        Duration::from_millis(now_ms.saturating_sub(self.seen_ms))
    }

    /// How long the oldest hold has lasted, if that is known.
    pub(crate) fn held(&self, now_ms: u64) -> Option<Duration> {
        Some(self.longest_hold()? + self.age(now_ms))
    }

    /// The longest time that a present waiter has waited.
    pub(crate) fn waited(&self, now_ms: u64) -> Option<Duration> {
        Some(self.longest_wait()? + self.age(now_ms))
    }

    fn longest_hold(&self) -> Option<Duration> {
        self.status.holders.iter().map(|holder| holder.held_for).max()
    }

    fn longest_wait(&self) -> Option<Duration> {
        self.status.waiters.iter().map(|waiter| waiter.waited).max()
    }

    /// How long the lock stays held if no hold is renewed.
    pub(crate) fn left(&self, now_ms: u64) -> Option<Duration> {
        let left = self.status.holders.iter().map(|holder| holder.ttl_left).max();
        let left = left.or(self.status.foreign.as_ref().and_then(|foreign| foreign.ttl_left));
        left.map(|left| left.saturating_sub(self.age(now_ms)))
    }

    /// The mode of the lock: `w` for an exclusive holder, `r` or `r×2` for readers, `3/4` for
    /// permits, and `?` if the record cannot be read.
    pub(crate) fn mode(&self) -> String {
        let status = &self.status;
        if let Some(foreign) = &status.foreign {
            // A record of another program does not tell the number of readers.
            return if foreign.mode == Mode::Shared { "r" } else { "w" }.to_owned();
        }
        let taken = status.holders.iter().map(|holder| u64::from(holder.mode.weight()));
        match (status.holders.first().map(|first| first.mode), status.holders.len()) {
            (None, _) => if self.unreadable.is_some() { "?" } else { "-" }.to_owned(),
            (Some(Mode::Shared), 1) => "r".to_owned(),
            (Some(Mode::Shared), readers) => format!("r×{readers}"),
            (Some(Mode::Permits { capacity, .. }), _) => {
                format!("{}/{capacity}", taken.sum::<u64>())
            }
            _ => "w".to_owned(),
        }
    }

    /// The first holder of the lock, and the number of other holders.
    pub(crate) fn holder(&self) -> String {
        match self.status.holders.split_first() {
            None if self.unreadable.is_some() => "cannot be read".to_owned(),
            None if self.status.foreign.is_some() => ANOTHER.to_owned(),
            None => "-".to_owned(),
            Some((first, [])) => first_words(first),
            Some((first, others)) => format!("{} +{}", first_words(first), others.len()),
        }
    }

    /// The token of the oldest hold, if it is known.
    pub(crate) fn token(&self) -> Option<FencingToken> {
        self.status.holders.first().and_then(|holder| holder.token)
    }

    /// What revokes the oldest hold.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.status.holders.first().map(LeaseId::of)
    }

    /// The label of the first holder, or why the record cannot be read.
    pub(crate) fn label(&self) -> String {
        let first = self.status.holders.first();
        let label = first.and_then(|first| first.info.label.clone());
        self.unreadable.as_ref().map(ToString::to_string).or(label).unwrap_or_default()
    }

    /// Whether the name, or the host or label of a holder or waiter, contains this text, which is
    /// in small letters.
    pub(super) fn has(&self, name: &LockName, text: &str) -> bool {
        let has = |words: &str| words.to_lowercase().contains(text);
        let is_of = |info: &HolderInfo| has(&info.host) || info.label.as_deref().is_some_and(has);
        has(name.as_str())
            || self.status.holders.iter().any(|holder| is_of(&holder.info))
            || self.status.waiters.iter().any(|waiter| is_of(&waiter.info))
    }
}

/// A holder in words. If its process has ended, the words say so, so that nobody looks for the
/// process.
fn first_words(first: &Holder) -> String {
    let cooldown = if first.state == HoldState::Cooldown { "cooldown of " } else { "" };
    format!("{cooldown}{}", first.info.process(first.id))
}
