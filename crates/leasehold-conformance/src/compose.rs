//! Cases of features that are composed of leases: several names together, elections, jobs that run
//! once.

use std::cell::Cell;
use std::time::Duration;

use futures_util::future::{join, join_all};
use leasehold::election::{Observation, Observed};
use leasehold::store::Store;
use leasehold::{Client, Error, LockName};

use crate::bench::{AFTER_SHORT, LONG, SHORT};
use crate::subject::{Subject, must};

/// Leaders that follow each other while one observes.
const LEADERS: usize = 50;

/// The end of a lease is reported if it was held for longer than this.
const TOLD_AFTER: Duration = Duration::from_millis(1100);

/// Rounds of two callers with reversed names; each costs a few round trips.
const ROUNDS: usize = 40;

/// The number of clients that try for the same names at the same time, and how often each tries.
const TRYING: u32 = 8;
const TRIES: usize = 20;

/// Three names in an order that is not the sorted one.
fn names(subject: &Subject) -> [LockName; 3] {
    ["b", "c", "a"].map(|what| subject.fresh_name(what))
}

async fn is_free(subject: &Subject, client: &Client, name: &LockName) -> bool {
    match must(subject.drive(client.mutex(name).try_acquire()).await) {
        Some(guard) => {
            must(subject.drive(guard.release()).await);
            true
        }
        None => false,
    }
}

/// Several names are held all together or not at all, each with its token, in the given order.
pub async fn several_names_are_held_all_or_none(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let names = names(subject);
    let busy = must(subject.drive(two.mutex(&names[0]).acquire()).await);
    assert!(must(subject.drive(one.multi(&names).try_acquire()).await).is_none());
    for name in &names[1..] {
        assert!(is_free(subject, &two, name).await);
    }
    let release = async {
        match subject.can().queued {
            true => {
                while must(two.admin().inspect(&names[0]).await).waiting == 0 {
                    tokio::task::yield_now().await;
                }
            }
            // This store does not show waiters.
            false => subject.pass(SHORT).await,
        }
        must(busy.release().await);
    };
    let all = one.multi(&names);
    let (guard, ()) = subject.drive(join(all.acquire(), release)).await;
    let guard = must(guard);
    assert!(guard.tokens().map(|(name, _)| name).eq(&names));
    for (name, token) in guard.tokens() {
        let status = must(subject.drive(two.admin().inspect(name)).await);
        let known: Vec<_> = status.holders.iter().filter_map(|holder| holder.token).collect();
        assert!(
            status.holders.len() == 1 && known.iter().all(|known| *known == token),
            "{token:?}: {status:?}"
        );
    }
    must(subject.drive(guard.release()).await);
    for name in &names {
        assert!(is_free(subject, &two, name).await);
    }
}

/// Two callers with the same names in opposite orders never deadlock.
pub async fn callers_with_reversed_names_never_wait_for_each_other(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let names = names(subject);
    let reversed: Vec<&LockName> = names.iter().rev().collect();
    let rounds = async |lock: leasehold::Lock| {
        for _ in 0..ROUNDS {
            must(must(lock.acquire().await).release().await);
        }
    };
    subject.drive(join(rounds(one.multi(&names)), rounds(two.multi(&reversed)))).await;
}

/// If many callers try for the same names at the same time, one gets them all, in every round. On a
/// quorum, possibly nobody gets a majority, not even of one name.
pub async fn of_many_who_try_for_several_names_at_once_one_gets_them(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let clients = subject.clients(TRYING).await;
    let names = names(subject);
    for round in 0..TRIES {
        let locks: Vec<_> = clients.iter().map(|client| client.multi(&names)).collect();
        let tries = join_all(locks.iter().map(leasehold::Lock::try_acquire));
        let guards: Vec<_> = subject.drive(tries).await.into_iter().filter_map(must).collect();
        assert_eq!(guards.len(), 1, "round {round}");
        for guard in guards {
            must(subject.drive(guard.release()).await);
        }
    }
}

/// A try for several names asks again for a name that another client has just taken and soon
/// releases. The first name in sorted order is the exception.
pub async fn a_try_outlasts_a_caller_that_has_just_taken_one_of_its_names(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let names = names(subject);
    let all = one.multi(&names);
    let [_, last, first] = &names;
    let get = async |taken: &LockName| {
        let guard = must(subject.drive(two.mutex(taken).acquire()).await);
        let has_ended = Cell::new(false);
        let tries = async {
            let tried = all.try_acquire().await;
            has_ended.set(true);
            tried
        };
        // This runs once the try has the first name, or has ended.
        let give_back = async {
            let theirs = guard.holder().client;
            let has_first = async || {
                let status = must(two.admin().inspect(first).await);
                status.holders.iter().any(|holder| holder.id.client != theirs)
            };
            while !has_first().await && !has_ended.get() {
                tokio::task::yield_now().await;
            }
            must(guard.release().await);
        };
        let (tried, ()) = subject.drive(join(tries, give_back)).await;
        match must(tried) {
            Some(guard) => subject.drive(guard.release()).await.is_ok(),
            None => false,
        }
    };
    assert!(!get(first).await);
    let mut has_got = false;
    // On a busy machine, the name may seem to have been held for a long time.
    for _ in 0..5 {
        has_got = has_got || get(last).await;
    }
    assert!(has_got);
}

/// Observers see the value of a leader and each later value. Once a leader was overtaken, its new
/// values change nothing.
pub async fn a_leader_is_seen_with_what_it_says(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let name = subject.fresh_name("election");
    let (by_one, by_two) = (one.election(&name), two.election(&name));
    let said = async || must(subject.drive(by_two.leader()).await).map(|leader| leader.value);
    assert_eq!(said().await, None);
    let first = must(subject.drive(by_one.campaign("one")).await);
    assert_eq!(said().await.as_deref(), Some("one"));
    must(subject.drive(first.proclaim("one, elsewhere")).await);
    assert_eq!(said().await.as_deref(), Some("one, elsewhere"));
    assert!(must(subject.drive(two.admin().revoke_now(&name, first.guard().token())).await));
    let second = must(subject.drive(by_two.campaign("two")).await);
    assert!(second.guard().token() > first.guard().token());
    let refused = subject.drive(first.proclaim("one, still")).await;
    assert!(matches!(refused, Err(Error::Lost { .. })), "{refused:?}");
    assert_eq!(said().await.as_deref(), Some("two"));
    must(subject.drive(second.resign()).await);
    assert_eq!(said().await, None);
}

async fn values_until(mut observation: Observation, last: &str) -> Vec<String> {
    let mut values = Vec::new();
    while values.last().is_none_or(|value| value != last) {
        let Observed::Leader(leader) = must(observation.next().await) else { continue };
        // After an outage the same leader is reported again.
        if values.last() != Some(&leader.value) {
            values.push(leader.value);
        }
    }
    values
}

/// An observer misses no leader if the store has subscriptions to messages of its clients. Without
/// them, it still sees the last leader.
pub async fn an_observer_misses_no_leader_of_fifty(subject: &Subject) {
    let clients = [subject.client().await, subject.client().await];
    let watching = subject.client().await;
    let name = subject.fresh_name("election");
    let has_news = must(subject.store().subscribe(&name).await).is_some();
    let has_news = has_news && !subject.can().hears_anybody;
    let observation = must(subject.drive(watching.election(&name).observe()).await);
    let values: Vec<String> = (0..LEADERS).map(|n| n.to_string()).collect();
    let lead = async {
        for (value, client) in values.iter().zip(clients.iter().cycle()) {
            must(must(client.election(&name).campaign(value).await).resign().await);
        }
        must(clients[0].election(&name).campaign("last").await)
    };
    let (seen, last) = subject.drive(join(values_until(observation, "last"), lead)).await;
    if has_news {
        assert_eq!(seen[..LEADERS], values);
    }
    must(subject.drive(last.resign()).await);
}

/// Watchers of a name learn of the end of its lease, even if the guard was dropped. The exception
/// is a lease that is shorter than the interval between their requests.
pub async fn the_end_of_a_lease_is_told_to_those_who_watch(subject: &Subject) {
    let client = subject.client().await;
    let name = subject.fresh_name("told");
    let Some(mut news) = must(subject.store().subscribe(&name).await) else { return };
    if !subject.can().queued {
        return; // the store itself reports every end
    }
    for is_dropped in [false, true] {
        let brief = must(subject.drive(client.mutex(&name).acquire()).await);
        must(subject.drive(brief.release()).await);
        let guard = must(subject.drive(client.mutex(&name).acquire()).await);
        let left = format!("left {}", guard.token());
        subject.pass(TOLD_AFTER).await;
        match is_dropped {
            true => drop(guard),
            false => must(subject.drive(guard.release()).await),
        }
        let told = subject.drive(news.next()).await;
        assert_eq!(told.as_deref(), Some(left.as_str()), "and nothing of the brief one");
    }
}

/// A job that ended immediately is skipped until its minimum time is over.
pub async fn a_job_that_ended_at_once_is_skipped_for_a_while(subject: &Subject) {
    let (one, two) = (subject.client().await, subject.client().await);
    let (name, brief) = (subject.fresh_name("job"), subject.fresh_name("brief job"));
    let run = async |client: &Client, name: &LockName, least: Duration| {
        let job = client.mutex(name).min_hold(least);
        must(subject.drive(job.try_run(async |_| Ok::<_, Error>(()))).await)
    };
    assert_eq!(run(&one, &name, LONG).await, Some(()));
    assert_eq!(run(&two, &name, SHORT).await, None);
    assert_eq!(run(&one, &name, SHORT).await, None);
    assert_eq!(run(&one, &brief, SHORT).await, Some(()));
    subject.pass(AFTER_SHORT).await;
    assert_eq!(run(&two, &brief, Duration::ZERO).await, Some(()));
}
