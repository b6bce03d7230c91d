//! Leader election: one of many candidates leads, and the others see the leader and its value.
//!
//! An election is a mutex whose holder announces a value. The value is the holder's label, so it
//! ends with the leadership, and nobody but the leader can change it. Observers subscribe to the
//! name, and inspect the record before they report that nobody leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_core::backoff::Jitter;
use leasehold_core::model::ASK_INTERVAL;
use leasehold_core::{
    Error, FencingToken, HoldState, Instant, InvalidInput, LeaseOptions, LockName, Result, Status,
    StoreError,
};

use crate::clock::within;
use crate::guard::Guard;
use crate::keeper::{Handle, Keeper};
use crate::lock::Lock;
use crate::replies::end_notice;
use crate::store::Subscription;

/// After a message, an observer waits 50 ms before it inspects the record. So a successor's own
/// message comes first, and the observer sees successive changes one by one.
const SETTLE: Duration = Duration::from_millis(50);

/// An observer whose messages are only hints inspects the record after a message, but at most every
/// 200 ms, however many come.
const HINT_PAUSE: Duration = Duration::from_millis(200);

/// One leader among many candidates, under a name. [`Client::election`](crate::Client::election)
/// describes its use.
#[derive(Clone, Debug)]
pub struct Election {
    keeper: Handle,
    name: Result<LockName, InvalidInput>,
    lock: Lock,
}

/// The leader of an election, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The fencing token of the leadership: a later leader has a higher one.
    pub token: FencingToken,
    /// The value from the leader's campaign, or the value that the leader last proclaimed.
    pub value: String,
}

/// The state of an election, as its observer sees it.
#[derive(Clone, Debug)]
pub enum Observed {
    /// This leader leads, with this value.
    Leader(Leader),
    /// Nobody leads.
    Nobody,
    /// The store does not answer, so the leader may have changed since the last observation. This
    /// is reported once for each outage. As soon as the store answers, the observer says who leads,
    /// even if nothing has changed.
    Away(StoreError),
}

impl Election {
    pub(crate) fn new(keeper: Handle, name: Result<LockName, InvalidInput>, lock: Lock) -> Self {
        Self { keeper, name, lock: lock.alone() }
    }

    /// The same election with these options of the leader's lease; the label is the leader's value.
    pub fn options(self, options: LeaseOptions) -> Self {
        Self { lock: self.lock.options(options), ..self }
    }

    /// Waits until this candidate leads with `value`, such as an address or a version. Candidates
    /// are served in the order in which they came.
    ///
    /// The value must have no control characters, and at most 1 KiB together with the machine's
    /// name.
    ///
    /// Cost: the same as [`Lock::acquire`], one round trip to tell the store the value if the
    /// acquire did not, and one to tell observers.
    ///
    /// # Errors
    ///
    /// The same as [`Lock::acquire`], and [`Error::Invalid`] for a value out of range.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future withdraws the candidate, and leaves nothing behind.
    pub async fn campaign(&self, value: impl Into<String>) -> Result<Leadership> {
        let value = value.into();
        check_value(&self.keeper, &value)?;
        let lock = self.lock.clone().label(&value);
        loop {
            let guard = lock.acquire().await?;
            if !guard.is_described() {
                // If it fails, the keeper tells the store soon.
                let _ = guard.set_label(&*value).await;
            }
            let leadership = Leadership { guard, messages: AtomicU64::new(0) };
            leadership.publish_value(&value).await;
            if leadership.guard.is_held() {
                return Ok(leadership);
            }
        }
    }

    /// The leader, or `None` if nobody leads. A snapshot: stale once read.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], [`Error::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        let name = self.name.as_ref().map_err(InvalidInput::clone)?;
        let store = &self.keeper.here()?.store;
        let status = store.inspect(name, 1, None).await?;
        Ok(leader_of(&status).map(|(leader, _)| leader))
    }

    /// Watches the election without taking part.
    ///
    /// An observer sees each leader that leads for longer than a round trip. A leader tells its
    /// observers before [`campaign`](Election::campaign) returns, and its messages arrive in order,
    /// over a separate connection of the observer. If a leader resigns, or is dropped after a
    /// second or more, an observer soon sees that nobody leads. It also sees the end of a crashed
    /// leader's lease. A holder that acquired the name as a plain [`Lock`] leads, too, but does not
    /// announce itself. An observer sees such a holder when it next inspects the record, a second
    /// later. It misses a holder that has released before that. Some stores have no messages: the
    /// Redis user has no right to subscribe, or the file system has no pipes. With such a store, an
    /// observer inspects the record once a second, and can miss a leader that leads for less than a
    /// second. On PostgreSQL anybody may send messages. So an observer inspects the record after
    /// each, and can miss a leader that leads for less than 200 ms.
    ///
    /// Cost: one round trip each second, also while nothing changes: a leader that crashes, or a
    /// store that does not answer, publishes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Store`], [`Error::Invalid`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn observe(&self) -> Result<Observation> {
        let (keeper, name) = (self.keeper.clone(), self.name.clone()?);
        let store = &keeper.here()?.store;
        let subscription = store.inner.subscribe(&name).await?;
        let (since, jitter) = (store.now(), keeper.jitter());
        Ok(Observation {
            hears_anybody: store.inner.capabilities().hears_anybody,
            keeper,
            name,
            subscription,
            since,
            known: None,
            is_away: false,
            newest: None,
            found: None,
            inspected_at: since,
            inspect_at: since,
            jitter,
        })
    }
}

/// A leadership: the lease of a leader.
///
/// Dropping it resigns in the background. If the leadership lasted for less than a second, no
/// message tells the observers of its end: they learn of it from the successor, or from the record.
#[derive(Debug)]
#[must_use = "if unused the leadership ends at once"]
pub struct Leadership {
    guard: Guard,
    /// The number of messages that the leader has published.
    messages: AtomicU64,
}

impl Leadership {
    /// The lease: its token, [whether it is lost](Guard::ensure_held), and how
    /// [to wait for that](Guard::lost). From then on somebody else may lead.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Announces another value from now on. Only the leader can do this: in one step, the store
    /// checks that the leader still leads, and sets the value.
    ///
    /// Cost: two round trips, one of them to tell observers.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if somebody else may lead; then nothing was changed.
    /// [`Error::Store`] if no answer came: ask again to be sure.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the old or the new value may be in force; observers see which.
    pub async fn proclaim(&self, value: impl Into<String>) -> Result<()> {
        let value = value.into();
        check_value(self.guard.keeper(), &value)?;
        self.guard.set_label(value.as_str()).await?;
        self.publish_value(&value).await;
        Ok(())
    }

    /// Stops leading; the next candidate leads in the same step.
    ///
    /// Cost: two round trips, one of them to tell observers.
    ///
    /// # Errors
    ///
    /// The same as [`Guard::release`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the keeper finishes the release.
    pub async fn resign(self) -> Result<()> {
        let (keeper, name) = (Arc::clone(self.guard.keeper()), self.guard.name().clone());
        let token = self.guard.token();
        self.guard.release().await?;
        publish(&keeper, &name, &end_notice(token)).await;
        Ok(())
    }

    async fn publish_value(&self, value: &str) {
        let nth = self.messages.fetch_add(1, Ordering::Relaxed);
        let Self { guard, .. } = self;
        publish(guard.keeper(), guard.name(), &text(guard.token(), nth, value)).await;
    }
}

/// The changes of an election, one after the other.
pub struct Observation {
    keeper: Handle,
    name: LockName,
    subscription: Option<Box<dyn Subscription>>,
    /// The time at which the observer subscribed.
    since: Instant,
    /// The leader that was reported last; `None` before the first report.
    known: Option<Option<Leader>>,
    /// An outage was the last report: no leader has been reported since.
    is_away: bool,
    /// The newest message that a leader has sent: the token of the leader, and the message's
    /// number.
    newest: Option<(FencingToken, u64)>,
    /// The leader that the last inspection found, while the leader's own message has not come.
    found: Option<Leader>,
    /// Anybody may have sent a message, so it is only a hint.
    hears_anybody: bool,
    inspected_at: Instant,
    inspect_at: Instant,
    jitter: Jitter,
}

impl Drop for Observation {
    /// In a forked child, the subscription belongs to the parent, so it is not dropped.
    fn drop(&mut self) {
        if self.keeper.is_of_parent() {
            std::mem::forget(self.subscription.take());
        }
    }
}

impl Observation {
    /// The first call returns the present leader. Each later call waits for the next change, and
    /// returns the new leader, or the leader with its new value. An outage is reported as
    /// [`Observed::Away`], and the observer rides it out.
    ///
    /// # Errors
    ///
    /// [`Error::Store`] for trouble that will not pass by itself. The call may be made again after
    /// an error. [`Error::Forked`] in a process that was forked after the observation began.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Observed> {
        if self.keeper.is_of_parent() {
            return Err(Error::Forked);
        }
        loop {
            let message = match &mut self.subscription {
                Some(subscription) => subscription.next(),
                None => Box::pin(std::future::pending()),
            };
            let clock = &*self.keeper.store.clock;
            let changed = match within(clock, self.inspect_at, message).await {
                Some(message) => self.received(message),
                None => match self.inspect().await {
                    Err(Error::Store(error)) if error.kind().is_outage() => {
                        if !std::mem::replace(&mut self.is_away, true) {
                            return Ok(Observed::Away(error));
                        }
                        false
                    }
                    inspected => inspected?,
                },
            };
            if changed && let Some(known) = &self.known {
                self.is_away = false;
                return Ok(known.clone().map_or(Observed::Nobody, Observed::Leader));
            }
        }
    }

    /// Handles a message; true if the message brings a change.
    ///
    /// The observer trusts a leader's own message, unless anybody may have sent it. It does not
    /// trust the message that nobody leads: the message of a successor may be on its way.
    fn received(&mut self, message: Option<String>) -> bool {
        let now = self.keeper.store.now();
        self.inspect_at = match message {
            Some(_) if self.hears_anybody => {
                self.inspect_at = self.inspect_at.min(self.inspected_at + HINT_PAUSE);
                return false;
            }
            Some(_) => {
                self.found = None;
                now + SETTLE
            }
            // Some messages were lost, perhaps that of the leader in `found`.
            None => now,
        };
        let Some((leader, nth)) = message.as_deref().and_then(parse) else { return false };
        // Several nodes deliver every message, some later than others.
        if self.newest >= Some((leader.token, nth)) {
            return false;
        }
        self.newest = Some((leader.token, nth));
        let known = self.known.as_ref().and_then(Option::as_ref);
        // Connections differ in speed: an earlier leader's message may come after an inspection.
        if known.is_some_and(|known| known.token > leader.token || *known == leader) {
            return false;
        }
        self.known = Some(Some(leader));
        true
    }

    /// Inspects the record; true if it brings a change, or ends an outage.
    async fn inspect(&mut self) -> Result<bool> {
        self.inspected_at = self.keeper.store.now();
        let status = match self.keeper.store.inspect(&self.name, 1, None).await {
            Ok(status) => status,
            Err(error) => {
                self.inspect_at = self.keeper.store.now() + self.jitter.around(ASK_INTERVAL);
                return Err(error.into());
            }
        };
        // Messages that came meanwhile report each change; the record shows only the last one.
        let mut messages_came = false;
        while let Some(message) =
            self.subscription.as_mut().and_then(|open| open.next().now_or_never())
        {
            messages_came = true;
            if self.received(message) {
                return Ok(true);
            }
        }
        if messages_came && !self.hears_anybody {
            return Ok(false);
        }
        let found = leader_of(&status);
        let now = self.keeper.store.now();
        self.inspect_at = match &found {
            _ if messages_came => self.inspected_at + HINT_PAUSE,
            Some((_, ttl_left)) if *ttl_left < ASK_INTERVAL => now + (*ttl_left).max(SETTLE),
            _ => now + self.jitter.around(ASK_INTERVAL),
        };
        let mut leaders = status.holders.iter().filter(|it| it.state != HoldState::Cooldown);
        if leaders.any(|leader| leader.token.is_none()) {
            // The next message or inspection shows who the new leader is.
            self.inspect_at = now + SETTLE;
            return Ok(false);
        }
        let found = found.map(|(leader, _)| leader);
        let subscribed_for = now.saturating_since(self.since);
        let is_later = status.holders.iter().any(|holder| holder.held_for < subscribed_for);
        let publishes = self.subscription.is_some()
            && !self.hears_anybody
            && (self.known.is_some() || is_later);
        let is_another = found.is_some() && self.known.as_ref() != Some(&found);
        if publishes && is_another && self.found != found {
            // The leader's own message comes soon, over another connection, and so do those of
            // earlier leaders that no inspection found.
            self.found = found;
            self.inspect_at = now + ASK_INTERVAL;
            return Ok(false);
        }
        let is_change = self.known.as_ref() != Some(&found);
        self.known = Some(found);
        Ok(is_change || self.is_away)
    }
}

debug_as!(Observation => |_, f| f.write_str("Observation { .. }"));

/// The `nth` message of a leader to the observers of its election. When it leaves, it sends the
/// notice that every lease leaves.
fn text(token: FencingToken, nth: u64, value: &str) -> String {
    format!("leads {token} {nth} {value}")
}

/// Reads the message of a leader; `None` for any other, as that of a later release.
fn parse(text: &str) -> Option<(Leader, u64)> {
    let (token, rest) = text.strip_prefix("leads ")?.split_once(' ')?;
    let (nth, value) = rest.split_once(' ')?;
    Some((Leader { token: token.parse().ok()?, value: value.to_owned() }, nth.parse().ok()?))
}

/// Publishes a message. Observers inspect the record as well, so a failed message is no error of
/// the leader.
async fn publish(keeper: &Keeper, name: &LockName, message: &str) {
    let _ = keeper.store.inner.publish(name, message).await;
}

fn check_value(keeper: &Keeper, value: &str) -> Result<()> {
    let checked = keeper.info(Some(value.to_owned())).check();
    let why = |why| format!("the value is kept as the leader's label: {why}");
    Ok(checked.map_err(|wrong| InvalidInput::new("value", why(wrong.why)))?)
}

/// The leader, and how long its lease lasts unless it is renewed.
fn leader_of(status: &Status) -> Option<(Leader, Duration)> {
    let holder = status.holders.first().filter(|holder| holder.state != HoldState::Cooldown)?;
    let value = holder.info.label.clone().unwrap_or_default();
    Some((Leader { token: holder.token?, value }, holder.ttl_left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_text() {
        let token = FencingToken::from_micros(1_800_000_000_000_000);
        for value in ["", "10.0.0.5:80", "{\"a\": 1, \"b\": \"x y\"}"] {
            let leader = Leader { token, value: value.to_owned() };
            assert_eq!(parse(&text(token, 7, value)), Some((leader, 7)));
        }
        for wrong in ["", "leads", "leads 1", "leads 1 2", "leads x 1 y", "left 1", "sings 1 2 x"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
