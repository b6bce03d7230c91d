//! Cases that use the library, as a program does. A mutex, a write lock and a semaphore with one
//! permit must all behave as an exclusive lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join, join_all, select};
use leasehold::lease::{Lease, Mode, Renewal};
use leasehold::store::protocol::Reply;
use leasehold::{Client, Error, Lock, LockName, LossReason};

use crate::bench::{Bench, LONG, SHORT, answered, somebody};
use crate::subject::{Subject, must};

/// The kinds of locks that only one can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    Semaphore,
    Write,
}

impl Kind {
    pub(super) fn of(self, client: &Client, name: &LockName) -> Lock {
        match self {
            Self::Mutex => client.mutex(name),
            Self::Semaphore => client.semaphore(name, 1).permit(),
            Self::Write => client.rwlock(name).write(),
        }
    }
}

/// Two clients and a name for each kind of lock that the store has.
pub(super) struct Pair<'a> {
    pub(super) subject: &'a Subject,
    pub(super) kind: Kind,
    pub(super) name: LockName,
    pub(super) one: Client,
    pub(super) two: Client,
}

impl<'a> Pair<'a> {
    pub(super) async fn all(subject: &'a Subject) -> Vec<Self> {
        let can = subject.can();
        let kinds =
            [(Kind::Mutex, true), (Kind::Semaphore, can.permits), (Kind::Write, can.shared)];
        let mut pairs = Vec::new();
        for (kind, _) in kinds.into_iter().filter(|(_, is_there)| *is_there) {
            pairs.push(Self::of(subject, kind).await);
        }
        pairs
    }

    pub(super) async fn of(subject: &'a Subject, kind: Kind) -> Self {
        let name = subject.fresh_name("library");
        let (one, two) = (subject.client().await, subject.client().await);
        Self { subject, kind, name, one, two }
    }

    pub(super) fn by_one(&self) -> Lock {
        self.kind.of(&self.one, &self.name)
    }

    pub(super) fn by_two(&self) -> Lock {
        self.kind.of(&self.two, &self.name)
    }

    pub(super) async fn is_free(&self) -> bool {
        let status = must(self.two.admin().inspect(&self.name).await);
        status.holders.is_empty() && status.waiting == 0
    }

    pub(super) async fn waiting(&self) -> u32 {
        must(self.two.admin().inspect(&self.name).await).waiting
    }

    pub(super) async fn until_somebody_waits(&self) {
        self.until_waiting(1).await;
    }

    /// Waits until `count` callers wait. If the store does not show waiters, this gives up after a
    /// while and prints that.
    pub(super) async fn until_waiting(&self, count: u32) {
        if !self.subject.can().queued {
            return self.subject.pass(SHORT).await;
        }
        while self.waiting().await != count {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn until_free(&self) {
        self.subject.until("nobody holds or waits", || self.is_free()).await;
    }
}

/// An exclusive lease has one holder at a time.
pub async fn an_exclusive_lease_has_one_holder_at_a_time(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let guard = must(subject.drive(pair.by_one().acquire()).await);
        assert!(must(subject.drive(pair.by_two().try_acquire()).await).is_none());
        assert!(must(subject.drive(pair.by_one().try_acquire()).await).is_none(), "not re-entrant");
        must(guard.ensure_held());
        let first = guard.token();
        must(subject.drive(guard.release()).await);
        let Some(guard) = must(subject.drive(pair.by_two().try_acquire()).await) else {
            panic!("{:?}: it is free", pair.kind)
        };
        assert!(guard.token() > first);
        must(subject.drive(guard.release()).await);
        assert!(pair.is_free().await);
    }
}

/// A lease is renewed for another ttl: a longer one immediately, and by its keeper from then on.
pub async fn a_lease_is_renewed_for_a_longer_or_a_shorter_ttl(subject: &Subject) {
    let seconds = Duration::from_secs;
    for pair in Pair::all(subject).await {
        let left = async || {
            let status = must(subject.drive(pair.two.admin().inspect(&pair.name)).await);
            status.holders[0].ttl_left
        };
        let lock = pair.by_one().ttl(seconds(2)).renewal(Renewal::Off);
        let guard = must(subject.drive(lock.acquire()).await);
        let validity = must(subject.drive(guard.renew_for(LONG)).await);
        assert!(validity > seconds(20) && left().await > seconds(20), "{validity:?}");
        let refused = subject.drive(guard.renew_for(Duration::from_millis(10))).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let (token, holder) = (guard.token(), guard.holder());
        let lease = must(guard.into_lease());
        assert_eq!((lease.ttl, lease.token, lease.holder), (LONG, token, holder));
        must(subject.drive(must(subject.drive(pair.two.adopt(lease)).await).release()).await);
    }
    let pair = Pair::of(subject, Kind::Mutex).await;
    let guard = must(subject.drive(pair.by_one().ttl(seconds(3)).acquire()).await);
    let validity = must(subject.drive(guard.renew_for(seconds(2))).await);
    assert!(validity > seconds(1), "what was promised stays: {validity:?}");
    // The longer lease has another second left, and would have been renewed in the middle of that
    // second.
    subject.pass(Duration::from_millis(1_500)).await;
    let status = must(subject.drive(pair.two.admin().inspect(&pair.name)).await);
    assert!(status.holders[0].ttl_left <= Duration::from_millis(2_010), "{status:?}");
    must(guard.ensure_held());
    must(subject.drive(guard.release()).await);
}

/// A dropped guard releases the lock.
pub async fn a_dropped_guard_gives_the_lock_back(subject: &Subject) {
    for pair in Pair::all(subject).await {
        drop(must(subject.drive(pair.by_one().acquire()).await));
        pair.until_free().await;
    }
}

/// A dropped acquire leaves nothing behind, whether it waited or was granted meanwhile.
pub async fn a_dropped_acquire_leaves_nothing_behind(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let guard = must(subject.drive(pair.by_one().acquire()).await);
        let by_two = pair.by_two();
        let waiting = async {
            tokio::select! {
                guard = by_two.acquire() => drop(must(guard)),
                () = pair.until_somebody_waits() => {}
            }
        };
        subject.drive(waiting).await;
        must(subject.drive(guard.release()).await);
        pair.until_free().await;
    }
}

/// A grant to a waiter that is alive but not polled goes to the next, and the waiter queues again.
pub async fn a_grant_that_nobody_fetches_goes_to_the_next(subject: &Subject) {
    let pair = Pair::of(subject, Kind::Mutex).await;
    let (by_one, by_two) = (pair.by_one().ttl(Duration::from_secs(1)), pair.by_two());
    let guard = must(subject.drive(by_two.acquire()).await);
    let mut waits = Box::pin(by_one.acquire());
    let waiting = Box::pin(pair.until_somebody_waits());
    let Either::Right(_) = subject.drive(select(waits.as_mut(), waiting)).await else {
        panic!("it is held by another")
    };
    must(subject.drive(guard.release()).await);
    // Nobody polls the future of the waiter.
    let guard = must(subject.drive(by_two.acquire()).await);
    let token = guard.token();
    let release = async {
        pair.until_somebody_waits().await;
        must(guard.release().await);
    };
    let (served, ()) = subject.drive(join(waits, release)).await;
    let served = must(served);
    assert!(served.token() > token);
    must(subject.drive(served.release()).await);
    pair.until_free().await;
}

/// A lease outlives its ttl while it is held.
pub async fn a_lease_outlives_its_ttl_while_it_is_held(subject: &Subject) {
    let pair = Pair::of(subject, Kind::Mutex).await;
    // Long enough for a busy machine: two thirds of the ttl must not pass between two renewals.
    let ttl = Duration::from_secs(5);
    // A lease is renewed as long as it is held, whatever was held and re-entered before it.
    let before = must(subject.drive(pair.by_one().acquire()).await);
    drop(must(before.reenter()));
    must(subject.drive(before.release()).await);
    let guard = must(subject.drive(pair.by_one().ttl(ttl).acquire()).await);
    for _ in 0..3 {
        subject.pass(ttl / 2).await;
        must(guard.ensure_held());
        assert!(must(subject.drive(pair.by_two().try_acquire()).await).is_none());
    }
    must(subject.drive(guard.release()).await);
}

/// A wait ends at its limit, and its error names the holder.
pub async fn a_wait_ends_at_its_limit_and_says_who_holds(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let guard = must(subject.drive(pair.by_one().label("the first").acquire()).await);
        let status = async || must(pair.two.admin().inspect(&pair.name).await);
        let is_told = async || status().await.holders.iter().any(|it| it.info.label.is_some());
        subject.until("the store is told the label", is_told).await;
        let limit = Duration::from_millis(200);
        match subject.drive(pair.by_two().acquire_within(limit)).await {
            Err(Error::Timeout {
                name,
                waited,
                holder: Some(holder),
                others: 0,
                own: false,
                ..
            }) => {
                assert_eq!((&name, holder.id), (&pair.name, guard.holder()));
                assert_eq!(holder.info.label.as_deref(), Some("the first"));
                assert!(waited >= limit);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(pair.waiting().await, 0);
        must(subject.drive(guard.release()).await);
    }
}

/// A limit of zero is a try, and a short limit that passes is a timeout, also on a client's first
/// call.
pub async fn a_limit_of_zero_is_a_try(subject: &Subject) {
    for pair in Pair::all(subject).await {
        for limit in [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(10)] {
            let guard = must(subject.drive(pair.by_one().acquire_within(limit)).await);
            let newcomer = pair.kind.of(&subject.client().await, &pair.name);
            let busy = subject
                .drive(answered(subject, async || newcomer.acquire_within(limit).await))
                .await;
            assert!(matches!(busy, Err(Error::Timeout { .. })), "{limit:?}: {busy:?}");
            must(subject.drive(guard.release()).await);
            let guard = must(subject.drive(newcomer.acquire_within(Duration::ZERO)).await);
            must(subject.drive(guard.release()).await);
        }
    }
}

/// A revoked lease is lost by its holder.
pub async fn a_revoked_lease_is_lost_by_its_holder(subject: &Subject) {
    for pair in Pair::all(subject).await {
        // If the store has no messages, a renewal finds out after a third of the ttl.
        let ttl = Duration::from_secs(6);
        let guard = must(subject.drive(pair.by_one().ttl(ttl).acquire()).await);
        assert!(must(pair.two.admin().revoke(&pair.name, guard.token()).await));
        assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Revoked));
        assert!(guard.ensure_held().is_err());
        drop(guard);
        pair.until_free().await;
    }
}

/// A lease that is revoked right after its grant reports that it was revoked. The message may come
/// before its holder listens; then the renewal reports it. A server that keeps nothing but the lock
/// itself is exempt.
pub async fn a_lease_that_is_revoked_at_once_after_its_grant_says_so(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    for pair in Pair::all(subject).await {
        let (bench, id) = (Bench::new(subject), somebody());
        bench.take(id, Mode::Exclusive).await;
        assert!(bench.revoke(id, true).await);
        assert_eq!(bench.renew(id).await, Reply::Revoked);
        let ttl = Duration::from_secs(6);
        let guard = must(subject.drive(pair.by_one().ttl(ttl).acquire()).await);
        assert!(must(pair.two.admin().revoke_now(&pair.name, guard.token()).await));
        assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Revoked));
    }
}

/// If several callers adopt a lease, of one client or of two, exactly one succeeds. Its new token
/// fences the old one. Nobody can adopt a lease that was released.
pub async fn a_lease_is_adopted_once(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let guard = must(subject.drive(pair.by_one().acquire()).await);
        let lease: Lease = must(must(guard.into_lease()).to_string().parse());
        assert!(!pair.is_free().await);
        let both = join(pair.one.adopt(lease.clone()), pair.two.adopt(lease.clone()));
        let (first, second) = subject.drive(both).await;
        let (guard, refused) = match (first, second) {
            (Ok(guard), Err(refused)) | (Err(refused), Ok(guard)) => (guard, refused),
            other => panic!("{:?}: one of the two: {other:?}", pair.kind),
        };
        check_not_adopted(&refused, &lease);
        for client in [&pair.one, &pair.two] {
            match subject.drive(client.adopt(lease.clone())).await {
                Ok(again) => panic!("{:?}: once more: {again:?}", pair.kind),
                Err(refused) => check_not_adopted(&refused, &lease),
            }
        }
        assert!(guard.token() > lease.token && guard.holder() != lease.holder);
        must(subject.drive(guard.renew()).await);
        assert!(!pair.is_free().await);
        let (id, mode, ttl) = (guard.holder(), guard.mode(), Duration::from_secs(30));
        let ended = Lease::new(pair.name.clone(), id, mode, guard.token(), ttl);
        must(subject.drive(guard.release()).await);
        match subject.drive(pair.two.adopt(ended.clone())).await {
            Ok(guard) => panic!("{:?}: it has ended: {guard:?}", pair.kind),
            Err(refused) => check_not_adopted(&refused, &ended),
        }
        assert!(pair.is_free().await);
    }
}

#[track_caller]
fn check_not_adopted(refused: &Error, lease: &Lease) {
    match refused {
        Error::NotAdopted { name, token, .. } => {
            assert_eq!((name, *token), (&lease.name, lease.token));
        }
        other => panic!("{other:?}"),
    }
}

/// A lease with two guards is held until both are gone.
pub async fn a_second_guard_keeps_the_lease_until_both_are_gone(subject: &Subject) {
    for pair in Pair::all(subject).await {
        let guard = must(subject.drive(pair.by_one().acquire()).await);
        let again = must(guard.reenter());
        assert_eq!(again.token(), guard.token());
        must(subject.drive(guard.release()).await);
        must(again.ensure_held());
        assert!(!pair.is_free().await);
        must(subject.drive(again.release()).await);
        assert!(pair.is_free().await);
    }
}

/// A closed client releases everything.
pub async fn a_closed_client_gives_everything_back(subject: &Subject) {
    let pair = Pair::of(subject, Kind::Mutex).await;
    let guard = must(subject.drive(pair.by_one().acquire()).await);
    let lock = pair.by_one();
    must(subject.drive(pair.one.clone().close()).await);
    assert!(pair.is_free().await);
    assert_eq!(subject.drive(guard.lost()).await, Some(LossReason::Closed));
    assert!(matches!(subject.drive(lock.acquire()).await, Err(Error::Closed)));
}

/// No update is lost among many clients, and the tokens are in order of entry.
pub async fn no_update_is_lost_among_many_clients(subject: &Subject) {
    const CLIENTS: u32 = 6;
    const ROUNDS: u32 = 10;
    for pair in Pair::all(subject).await {
        let (value, last) = (AtomicU32::new(0), Arc::new(std::sync::Mutex::new(None)));
        let mut workers = Vec::new();
        for _ in 0..CLIENTS {
            let lock = pair.kind.of(&subject.client().await, &pair.name);
            let (value, last) = (&value, Arc::clone(&last));
            workers.push(async move {
                for _ in 0..ROUNDS {
                    let guard = must(lock.acquire().await);
                    let previous = must(last.lock()).replace(guard.token());
                    assert!(Some(guard.token()) > previous, "tokens in order of entry");
                    let read = value.load(Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    value.store(read + 1, Ordering::Relaxed);
                    must(guard.ensure_held());
                    must(guard.release().await);
                }
            });
        }
        // Where waiters ask once a second, a hand-over takes that long.
        let patience = (CLIENTS * ROUNDS) * Duration::from_secs(5);
        subject.drive_within(patience, join_all(workers)).await;
        assert_eq!(value.into_inner(), CLIENTS * ROUNDS, "{:?}", pair.kind);
    }
}
