//! Cases that call the store directly: one exclusive lock.

use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{HolderId, HolderInfo};
use leasehold::lease::Mode;
use leasehold::store::Store as _;
use leasehold::store::protocol::{Action, Description, Operation, Reply};

use crate::bench::{AFTER_SHORT, Bench, LONG, SHORT, granted, somebody};
use crate::subject::{Subject, must};

const ALONE: Mode = Mode::Exclusive;

/// What a store may add to a ttl, because it counts in milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);

/// A copy of an acquire gets the same grant again, and one lease has one token.
pub async fn a_copy_of_an_acquire_gets_the_same_grant_again(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let token = bench.take(id, ALONE).await.token;
    assert_eq!(granted(bench.ask(id, ALONE).await).token, token);
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.token), (id, Some(token)));
}

/// A busy reply says how long the holder's lease may last.
pub async fn busy_tells_how_long_the_lease_may_last(subject: &Subject) {
    let bench = Bench::new(subject);
    bench.take(somebody(), ALONE).await;
    let reply = bench.try_acquire(somebody(), ALONE).await;
    let Reply::Busy { retry_after } = reply else { panic!("{reply:?}") };
    assert!(retry_after <= LONG + ROUNDED, "{retry_after:?}");
}

/// If many clients ask at the same time, one is granted.
pub async fn of_many_who_ask_at_once_one_is_granted(subject: &Subject) {
    let bench = Bench::new(subject);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let action = Action::Take(bench.request(somebody(), ALONE).with_waits(false));
        let (store, name) = (subject.store(), bench.name.clone());
        asking.spawn(async move { store.execute(Operation::On { name, action }).await });
    }
    let replies = subject.drive(asking.join_all()).await;
    let grants = replies.into_iter().map(|reply| must(reply).reply);
    assert_eq!(grants.filter(|reply| matches!(reply, Reply::Granted(_))).count(), 1);
}

/// A lapsed lease goes to the waiter that asks, and its former holder has nothing any more.
pub async fn a_lapsed_lease_goes_to_the_waiter_that_asks(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let lapsed = bench.take_briefly(holder, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    let grant = bench.take(waiter, ALONE).await;
    assert!(grant.token > lapsed.token);
    assert_eq!(bench.renew(holder).await, Reply::NotHeld);
    assert!(!bench.release(holder).await);
    assert_eq!(bench.holders().await, [waiter]);
}

/// An attempt that was closed gets nothing from a late copy of its request, and another attempt
/// does.
pub async fn an_attempt_that_was_closed_gets_nothing_from_a_late_copy(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id, holder) = (Bench::new(subject), somebody(), somebody());
    let closing = |id| bench.ending(id).with_closes(true);
    assert!(!bench.end(closing(id)).await, "its request has not come yet");
    assert_eq!(bench.ask(id, ALONE).await, Reply::Closed);
    bench.take(holder, ALONE).await;
    assert_eq!(bench.ask(id, ALONE).await, Reply::Closed, "another holds");
    assert!(bench.end(closing(holder)).await);
    assert_eq!(bench.try_acquire(holder, ALONE).await, Reply::Closed);
    bench.take(HolderId { attempt: 2, ..id }, ALONE).await;
}

/// A renewal moves the deadline and revives nothing.
pub async fn a_renewal_moves_the_deadline_and_revives_nothing(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let take = bench.request(id, ALONE).with_ttl(LONG / 4);
    granted(bench.act(Action::Take(take)).await);
    bench.keep(id).await;
    // A node of a quorum may have the renewal later than most of them.
    let is_long = async || bench.status().await.holders[0].ttl_left > LONG / 2;
    subject.until("it is renewed", is_long).await;
    let shorter = bench.act(Action::Keep(bench.renewal(id, SHORT))).await;
    assert!(matches!(shorter, Reply::Kept { .. }), "{shorter:?}");
    subject.until("it is not shortened", is_long).await;
    bench.release(id).await;
    assert_eq!(bench.renew(id).await, Reply::NotHeld);
    assert!(!bench.is_busy(ALONE).await);
}

/// Many leases are renewed in one call and answered in order.
pub async fn many_leases_are_renewed_in_one_call_and_answered_in_order(subject: &Subject) {
    let mut leases = Vec::new();
    for index in 0..130_u32 {
        let (bench, id) = (Bench::new(subject), somebody());
        if index % 3 > 0 {
            granted(bench.ask(id, ALONE).await);
        }
        let renewal = bench.renewal(id, LONG);
        leases.push((bench.name, renewal));
    }
    let Reply::Many(replies) = Bench::new(subject).execute(Operation::Keep(leases)).await.reply
    else {
        panic!("not many replies")
    };
    assert_eq!(replies.len(), 130);
    for (index, reply) in replies.iter().enumerate() {
        let is_held = matches!(reply, Reply::Kept { .. });
        assert_eq!(is_held, index % 3 > 0, "{index}: {reply:?}");
    }
}

/// A release by another client, or for another attempt, changes nothing.
pub async fn a_release_by_somebody_else_touches_nobody(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    let another = HolderId { attempt: id.attempt + 1, ..id };
    for other in [somebody(), another] {
        assert!(!bench.release(other).await);
    }
    assert_eq!(bench.holders().await, [id]);
}

/// A holder can change the value that it publishes, and nobody else can.
pub async fn a_holder_changes_what_it_says_of_itself_and_nobody_else_does(subject: &Subject) {
    let (bench, id, waiter) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(id, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    let info = |label: &str| HolderInfo::new("h", 7).with_label(Some(label.to_owned()));
    bench.describe(id, token, info("ünï")).await;
    let description = Some(Box::new(Description::new(token, info("no"))));
    let keep = bench.renewal(waiter, LONG).with_description(description);
    assert_eq!(bench.act(Action::Keep(keep)).await, Reply::NotHeld);
    let status = bench.status().await;
    assert_eq!((&status.holders[0].info, status.holders[0].token), (&info("ünï"), Some(token)));
    if subject.can().queued {
        assert_eq!(status.waiters[0].info.label.as_deref(), Some("a label"));
    }
}

/// A lease belongs to the first client that adopts it, and its former holder can no longer change
/// it.
pub async fn an_adopted_lease_is_its_adopters_and_nobody_elses(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let (first, second) = (somebody(), somebody());
    let handed_out = bench.take(holder, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    let token = granted(bench.adopt(first, holder, ALONE).await).token;
    assert!(token > handed_out);
    assert_eq!(granted(bench.adopt(first, holder, ALONE).await).token, token, "a copy");
    let late = bench.adopt(second, holder, ALONE).await;
    assert!(matches!(late, Reply::Closed | Reply::NotHeld), "{late:?}");
    assert!(!matches!(bench.renew(holder).await, Reply::Kept { .. }));
    assert!(!bench.release(holder).await);
    assert_eq!(bench.holders().await, [first]);
    bench.keep(first).await;
    assert!(bench.release(first).await);
    let next = if subject.can().queued { vec![waiter] } else { vec![] };
    assert_eq!(bench.holders().await, next);
}

/// Nobody can adopt a lapsed lease.
pub async fn a_lapsed_lease_is_adopted_by_nobody(subject: &Subject) {
    let (bench, holder, id) = (Bench::new(subject), somebody(), somebody());
    bench.take_briefly(holder, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    assert_eq!(bench.adopt(id, holder, ALONE).await, Reply::NotHeld);
    assert!(bench.holders().await.is_empty());
}

/// An adoption that was given up is not done when its request arrives late, and the lease is
/// unchanged.
pub async fn an_adoption_that_was_given_up_is_not_done_when_it_comes_late(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, holder, first, second) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    bench.end(bench.ending(first).with_closes(true)).await;
    assert_eq!(bench.adopt(first, holder, ALONE).await, Reply::Closed);
    assert_eq!(bench.holders().await, [holder]);
    granted(bench.adopt(second, holder, ALONE).await);
    bench.end(bench.ending(second).with_closes(true)).await;
    assert!(bench.holders().await.is_empty());
    assert_eq!(bench.adopt(second, holder, ALONE).await, Reply::Closed);
}

/// Tokens grow from grant to grant, also across releases and attempts.
pub async fn tokens_grow_from_grant_to_grant(subject: &Subject) {
    let bench = Bench::new(subject);
    let mut last = None;
    for _ in 0..20 {
        let id = somebody();
        let token = bench.take(id, ALONE).await.token;
        assert!(Some(token) > last);
        last = Some(token);
        bench.release(id).await;
    }
}

/// Names in any writing system are kept apart, however long they are.
pub async fn names_of_any_script_are_told_apart(subject: &Subject) {
    let number = subject.fresh_name("x");
    let mut names: Vec<_> =
        ["{a}", "a", "a ", "A", "%61", "a%", "日本語", "a:q", "../a", "*", "\\"]
            .iter()
            .map(|name| format!("{name}/{number}"))
            .collect();
    // Names that begin alike, or that a file system may confuse.
    names.extend(["", ".", " ", "/", "/x", ":x", "{x}"].map(|end| format!("{number}{end}")));
    names.push("y".repeat(511) + "1");
    names.push("y".repeat(511) + "2");
    for name in &names {
        let name = must(LockName::new(name));
        let bench = Bench::of(subject, name);
        bench.take(somebody(), ALONE).await;
    }
    for name in &names {
        let bench = Bench::of(subject, must(LockName::new(name)));
        assert!(bench.is_busy(ALONE).await, "{name}");
    }
}

/// Asking about an unknown name leaves nothing behind.
pub async fn asking_about_an_unknown_name_leaves_nothing_behind(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    assert_eq!(bench.renew(id).await, Reply::NotHeld);
    assert_eq!(bench.adopt(id, somebody(), ALONE).await, Reply::NotHeld);
    assert!(!bench.release(id).await);
    assert_eq!(bench.status().await, leasehold::admin::Status::default());
}
