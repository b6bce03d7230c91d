//! Calls for several names together, which never wait for each other in a circle.
//!
//! Names are taken in their sorted order. A caller that waits for a name holds only names that sort
//! before it, so two callers cannot each hold what the other waits for. First the caller asks for
//! all names at the same time, which is one round trip if they are free. This is sound because a
//! request that does not queue waits for nobody.
//!
//! The next rules are for calls that only try. If several of them ask for free names at the same
//! moment, each may get some. A call without the first of its sorted names gives up. Every other
//! call releases the names behind its first missing name, and asks for the missing names again for
//! up to 500 ms. So at least one call gets all its names.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::backoff::Backoff;
use leasehold_core::{Error, Instant, InvalidInput, LockName, Result};

use super::call;
use super::request::{Asked, Limit};
use crate::clock::within;
use crate::failures::no_answer;
use crate::keeper::{Held, Keeper, Polled};

/// The largest number of names in one lock: 64. Each of them is a lease that is renewed. A caller
/// that needs more should use one name for the whole.
pub(crate) const MAX_NAMES: usize = 64;

/// How long a try repeats its requests for names that another caller has just taken: 500 ms. By
/// then, another try has had its answers and has given the names back. A caller that keeps a name
/// for longer is at work.
const TRY_MOMENT: Duration = Duration::from_millis(500);

/// The first and the longest pause between two requests of a try.
const TRY_BACKOFF: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(50));

/// Checks names, and leaves out duplicates.
pub(crate) fn parse<N: AsRef<str>>(
    names: impl IntoIterator<Item = N>,
) -> Result<Vec<LockName>, InvalidInput> {
    let mut parsed = Vec::new();
    for name in names {
        let name = LockName::new(name)?;
        if !parsed.contains(&name) {
            parsed.push(name);
        }
        if parsed.len() > MAX_NAMES {
            let why = format!("more than {MAX_NAMES} names at once: use one name for the whole");
            return Err(InvalidInput::new("names", why));
        }
    }
    if parsed.is_empty() {
        return Err(InvalidInput::new("names", "no name was given: give at least one"));
    }
    Ok(parsed)
}

/// Returns a lease for each name, in the order of `names`. Each request has the options of `like`.
/// Returns `None` if names are busy and the limit is a try.
pub(crate) async fn acquire_all(names: &[LockName], like: Asked<'_>) -> Result<Option<Vec<Held>>> {
    let mut sorted: Vec<&LockName> = names.iter().collect();
    sorted.sort();
    let polled = Polled::new(like.options.ttl);
    let clock = &*like.keeper.store.clock;
    let like = Asked { gathers: Some(Arc::clone(&polled)), ..like };
    let request = |name| {
        let nth = names.iter().take_while(|other| *other != name).count() as u64;
        Asked { name, call: like.call + nth, ..like.clone() }
    };
    let mut gathering = Gathering {
        requests: sorted.into_iter().map(request).collect(),
        held: names.iter().map(|_| None).collect(),
        outage: None,
        like,
    };
    let gathered = polled.of(clock, gathering.run()).await?;
    let Some(mut held) = gathered else { return Ok(None) };
    held.sort_by_key(|held| names.iter().position(|name| *name == held.state.name));
    Ok(Some(held))
}

/// Names that a call gathers, to hold them together. If this value is dropped at any point, all of
/// them are released.
struct Gathering<'a> {
    like: Asked<'a>,
    /// The requests, in the sorted order of their names.
    requests: Vec<Asked<'a>>,
    /// The lease of each request, if it has one.
    held: Vec<Option<Held>>,
    /// The outage that the last requests met, if they met one.
    outage: Option<Error>,
}

impl Gathering<'_> {
    async fn run(&mut self) -> Result<Option<Vec<Held>>> {
        loop {
            self.ask_for_missing().await?;
            self.drop_lost();
            let Some(busy) = self.held.iter().position(Option::is_none) else {
                let held: Vec<Held> = self.held.iter_mut().filter_map(Option::take).collect();
                if self.like.keeper.mark_delivered(&held) {
                    return Ok(Some(held));
                }
                // One of the leases has just ended.
                until_end(&self.like, give_back(held)).await;
                continue;
            };
            self.let_go_for(busy).await;
            if !self.like.waits() {
                let Some(busy) = self.asks_on(busy).await? else { continue };
                give_back(self.held.drain(..).flatten().collect()).await;
                return self.requests[busy].busy().await;
            }
            self.held[busy] = self.wait_for(busy).await?;
        }
    }

    /// Asks for all names that are not held, at the same time and without joining a queue.
    async fn ask_for_missing(&mut self) -> Result<()> {
        let (store, rides_out) = (&self.like.keeper.store, self.like.waits());
        let now = store.now();
        let missing = self.held.iter_mut().zip(&self.requests).filter(|(held, _)| held.is_none());
        let requests = missing.map(|(held, request)| async move {
            match call::acquire(request.tried(now)).await {
                Ok(granted) => *held = granted,
                // The wait that follows rides out outages, as far as its limit allows.
                Err(error) if rides_out && is_outage(&error) => return Ok(Some(error)),
                Err(error) => return Err(error),
            }
            Ok(None)
        });
        let Some(answers) = until_end(&self.like, join_all(requests)).await else {
            // A name without an answer is missing; the wait that follows ends the call. Requests
            // that were sent after the end had no time for an answer.
            let had_time = self.like.answer_until().is_some_and(|end| now < end);
            let missing = self.held.iter().position(Option::is_none).filter(|_| had_time);
            if let Some(missing) = missing {
                let (name, ttl) = (self.requests[missing].name.clone(), self.like.options.ttl);
                self.outage.get_or_insert(Error::indeterminate(name, ttl, no_answer()));
            }
            return Ok(());
        };
        let outages = answers.into_iter().collect::<Result<Vec<Option<Error>>>>()?;
        self.outage = outages.into_iter().flatten().next();
        Ok(())
    }

    /// Asks again for the missing names, one after the other, so that only names before the missing
    /// one are held. Returns the name that stays busy, or `None` if all were free in the end.
    async fn asks_on(&mut self, busy: usize) -> Result<Option<usize>> {
        if busy == 0 {
            return Ok(Some(busy));
        }
        let store = &self.like.keeper.store;
        let end = store.now() + TRY_MOMENT;
        let mut backoff = Backoff::new(TRY_BACKOFF, self.like.keeper.jitter());
        let names = self.held.iter_mut().zip(&self.requests).enumerate();
        for (nth, (held, request)) in names.skip(busy) {
            while held.is_none() {
                *held = call::acquire(request.tried(store.now())).await?;
                if held.is_some() {
                    break;
                }
                let again = store.now() + backoff.next_delay();
                if again >= end || is_in_use(self.like.keeper, request.name).await {
                    return Ok(Some(nth));
                }
                store.clock.sleep_until(again).await;
            }
        }
        Ok(None)
    }

    /// Drops leases that were taken early and have too little validity left: their renewals failed,
    /// or nothing renews them.
    fn drop_lost(&mut self) {
        let now = self.like.keeper.store.now();
        for held in &mut self.held {
            held.take_if(|held| !held.is_enough(now));
        }
    }

    /// Releases `busy` and the names behind it, which the call must not hold while it waits for
    /// `busy`, or when it gives up.
    async fn let_go_for(&mut self, busy: usize) {
        let given_back: Vec<Held> = self.held.drain(busy..).flatten().collect();
        self.held.resize_with(self.requests.len(), || None);
        // The keeper releases what is not released by the end of the call.
        until_end(&self.like, give_back(given_back)).await;
    }

    async fn wait_for(&self, busy: usize) -> Result<Option<Held>> {
        let store = &self.like.keeper.store;
        let (now, so_far) = (store.now(), |now: Instant| now.saturating_since(self.like.started));
        let limit = match self.like.limit {
            Limit::Within(span) => Limit::Within(span.saturating_sub(so_far(now))),
            Limit::Forever | Limit::Try => self.like.limit,
        };
        let request = Asked { limit, started: now, ..self.requests[busy].clone() };
        let outcome = match limit {
            // After the limit the call is a try, which may take longer than is left.
            Limit::Within(Duration::ZERO) => {
                until_end(&self.like, call::acquire(request)).await.unwrap_or_else(|| {
                    let name = self.requests[busy].name.clone();
                    let timeout = || Error::timeout(name, so_far(store.now()), None, 0, false);
                    Err(self.outage.clone().unwrap_or_else(timeout))
                })
            }
            Limit::Forever | Limit::Try | Limit::Within(_) => call::acquire(request).await,
        };
        match outcome {
            Err(Error::Timeout { name, holder, others, own, .. }) => {
                Err(Error::timeout(name, so_far(store.now()), holder, others, own))
            }
            other => other,
        }
    }
}

/// Runs a part of a call that waits, until the end of that call: `None` if the end comes first.
async fn until_end<T>(like: &Asked<'_>, part: impl Future<Output = T>) -> Option<T> {
    let end = like.answer_until().filter(|_| like.waits());
    within(&*like.keeper.store.clock, end, pin!(part)).await
}

/// Whether another caller works under a name or waits for it: a caller that just tries does not
/// count.
async fn is_in_use(keeper: &Keeper, name: &LockName) -> bool {
    let Ok(status) = keeper.store.inspect(name, 1, None).await else { return false };
    let is_at_work = status.holders.iter().any(|holder| holder.held_for >= TRY_MOMENT);
    is_at_work || status.waiting > 0
}

/// Releases leases that were taken early. It waits for the answers, because a name whose release is
/// under way would look busy to our own next request. The keeper repeats a release that fails.
async fn give_back(mut held: Vec<Held>) {
    let Some(now) = held.first().map(|held| held.keeper.store.now()) else { return };
    join_all(held.iter_mut().map(|held| held.release(now))).await;
}

/// Whether a wait may continue after this error: the store was not reached, and has refused
/// nothing.
fn is_outage(error: &Error) -> bool {
    match error {
        Error::Indeterminate { .. } => true,
        Error::Store(error) => error.kind().is_outage(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_once_and_in_the_order_given() {
        let names = parse(["b", "a", "b"]).unwrap();
        let names: Vec<_> = names.iter().map(LockName::as_str).collect();
        assert_eq!(names, ["b", "a"]);
    }

    #[test]
    fn no_names_too_many_and_wrong_ones_are_refused() {
        assert_eq!(parse([""; 0]).unwrap_err().what, "names");
        assert_eq!(parse((0..65).map(|n| n.to_string())).unwrap_err().what, "names");
        assert!(parse((0..1000).map(|n| (n % 64).to_string())).is_ok());
        assert_eq!(parse(["a", ""]).unwrap_err().what, "name");
    }
}
