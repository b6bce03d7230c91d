//! Cases that call the store directly: one exclusive lock, its queue and its operators.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::{HolderId, HolderInfo};
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, Description, Message, Operation, Reply, Times};

use crate::bench::{AFTER_SHORT, Bench, LONG, SHORT, granted, somebody, who};
use crate::subject::{Subject, must};

const ALONE: Mode = Mode::Exclusive;

/// What a store may add to a ttl, because it counts in milliseconds.
const ROUNDED: Duration = Duration::from_millis(2);

/// A free lock is granted immediately, for the ttl that was asked for.
pub async fn a_free_lock_is_granted_at_once(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    granted(bench.ask(id, ALONE).await);
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.mode), (id, ALONE));
    assert!(held.ttl_left > LONG / 2 && held.ttl_left <= LONG + ROUNDED, "{held:?}");
}

/// A copy of an acquire gets the same grant again, and one lease has one token.
pub async fn a_copy_of_an_acquire_gets_the_same_grant_again(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let token = bench.take(id, ALONE).await.token;
    assert_eq!(granted(bench.ask(id, ALONE).await).token, token);
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.token), (id, Some(token)));
}

/// Without a queue, an attempt that would have to wait is answered with busy, and leaves nothing
/// behind.
pub async fn without_a_queue_an_attempt_that_would_wait_is_told_so(subject: &Subject) {
    if subject.can().queued {
        return;
    }
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let reply = bench.ask(waiter, ALONE).await;
    assert!(matches!(reply, Reply::Busy { .. }), "{reply:?}");
    bench.release(holder).await;
    let status = bench.status().await;
    assert!(status.holders.is_empty() && status.waiting == 0, "{status:?}");
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

/// Waiters are granted in the order of joining, each by the release of the holder before it.
pub async fn waiters_are_granted_in_the_order_of_joining(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let bench = Bench::new(subject);
    let ids: Vec<_> = (0..6).map(|_| somebody()).collect();
    bench.take(ids[0], ALONE).await;
    for id in &ids[1..] {
        bench.wait(*id, ALONE).await;
    }
    for pair in ids.windows(2) {
        assert!(bench.release(pair[0]).await);
        assert_eq!(bench.holders().await, [pair[1]], "in the same step");
        bench.keep(pair[1]).await;
    }
}

/// A copy of a waiting acquire keeps its place.
pub async fn a_copy_of_a_waiting_acquire_keeps_its_place(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, first, second) = (Bench::new(subject), somebody(), somebody());
    bench.take(somebody(), ALONE).await;
    bench.wait(first, ALONE).await;
    bench.wait(second, ALONE).await;
    bench.wait(first, ALONE).await;
    let waiters = bench.status().await.waiters;
    assert_eq!(waiters.iter().map(|waiter| waiter.id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(bench.wait(second, ALONE).await.ahead, 1);
}

/// A waiter whose place was lost brings it again, and is served before those that came later.
pub async fn a_waiter_that_brings_its_place_does_not_begin_at_the_end(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, holder, first, second) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let place = bench.wait(first, ALONE).await.sequence;
    bench.wait(second, ALONE).await;
    assert!(bench.release(first).await, "the store has lost it");
    assert_eq!(bench.wait(second, ALONE).await.ahead, 0);
    let again = bench.request(first, ALONE).with_place(Some(place));
    let Reply::Queued(place) = bench.act(Action::Take(again)).await else { panic!() };
    assert_eq!(place.ahead, 0);
    bench.release(holder).await;
    assert_eq!(bench.holders().await, [first]);
}

/// The message of a grant goes to its client and to nobody else.
pub async fn a_grant_is_told_to_its_client_and_to_nobody_else(subject: &Subject) {
    let can = subject.can();
    if !(can.queued && can.wakes) {
        return;
    }
    let (bench, holder, waiter, other) = (Bench::new(subject), somebody(), somebody(), somebody());
    let store = subject.store();
    let mut inbox = must(store.inbox(waiter.client).await);
    let mut others = must(store.inbox(other.client).await);
    bench.take(holder, ALONE).await;
    bench.wait(waiter, ALONE).await;
    let asked = bench.answer(Action::Take(bench.request(other, ALONE))).await;
    let Some(asked) = asked.now else { panic!("a place comes with the time: {asked:?}") };
    let mut before_us = asked.lease_us;
    for (releases, next, inbox) in [(holder, waiter, &mut inbox), (waiter, other, &mut others)] {
        bench.release(releases).await;
        let message = subject.drive(next_but_gaps(&mut **inbox)).await;
        let status = bench.status().await;
        let [held] = &status.holders[..] else { panic!("one holds: {status:?}") };
        let Message::Granted { attempt, token, now_us } = message else { panic!("{message:?}") };
        assert_eq!((held.id, attempt, Some(token)), (next, next.attempt, held.token));
        // A message may say whole milliseconds.
        assert!(now_us + 1_000 >= before_us, "{now_us} is before {before_us}");
        before_us = now_us;
    }
}

async fn next_but_gaps(inbox: &mut dyn leasehold::store::Inbox) -> Message {
    loop {
        match inbox.next().await {
            Message::Gap => {}
            message => return message,
        }
    }
}

/// A hand-over that nobody claims goes to the next, once the claim window is over.
pub async fn a_hand_over_that_nobody_claims_goes_to_the_next(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, holder, silent, next) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    bench.wait(silent, ALONE).await;
    bench.wait(next, ALONE).await;
    bench.release(holder).await;
    assert_eq!(bench.holders().await, [silent]);
    subject.pass(Duration::from_millis(Times::USUAL.window_ms) + AFTER_SHORT - SHORT).await;
    granted(bench.ask(next, ALONE).await);
    assert_eq!(bench.renew(silent).await, Reply::NotHeld, "its claim comes too late");
    assert_eq!(bench.wait(silent, ALONE).await.ahead, 0, "it joins again");
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

/// A waiter that never asks again is passed over.
pub async fn a_waiter_that_is_frozen_is_passed_over(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, holder, dead, alive) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    bench.wait(dead, ALONE).await;
    bench.wait(alive, ALONE).await;
    bench.release(holder).await;
    // Each store decides how long a waiter may be silent; 15 s is too long for every store.
    for _ in 0..30 {
        if let Reply::Granted(_) = bench.ask(alive, ALONE).await {
            return;
        }
        subject.pass(Duration::from_millis(500)).await;
    }
    panic!("nobody was passed over");
}

/// A waiter that gives up is gone, and if it was granted, the grant is handed on in the same step.
pub async fn a_waiter_that_gives_up_is_gone_and_its_grant_is_handed_on(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, ids) = (Bench::new(subject), [somebody(), somebody(), somebody(), somebody()]);
    bench.take(ids[0], ALONE).await;
    for id in &ids[1..] {
        bench.wait(*id, ALONE).await;
    }
    assert!(bench.release(ids[1]).await);
    bench.release(ids[0]).await;
    assert_eq!(bench.holders().await, [ids[2]]);
    assert!(bench.release(ids[2]).await);
    assert_eq!(bench.holders().await, [ids[3]]);
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
    bench.take_briefly(id, ALONE).await;
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

/// A holder learns from a renewal that somebody waits.
pub async fn a_renewal_tells_whether_somebody_waits(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    assert_eq!(bench.renew(id).await, Reply::Kept { contended: false });
    bench.wait(somebody(), ALONE).await;
    assert_eq!(bench.renew(id).await, Reply::Kept { contended: true });
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

/// A name in cooldown stays taken, without a holder, until the cooldown is over.
pub async fn a_kept_name_stays_taken_until_its_time_is_over(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    assert!(bench.end(bench.ending(id).with_cooldown(LONG)).await);
    assert!(bench.is_busy(ALONE).await);
    assert_eq!(bench.renew(id).await, Reply::NotHeld);
    // An attempt belongs to one name, so another name needs another attempt.
    let (short, id) = (Bench::new(subject), somebody());
    short.take(id, ALONE).await;
    short.end(short.ending(id).with_cooldown(SHORT)).await;
    subject.pass(AFTER_SHORT).await;
    assert!(!short.is_busy(ALONE).await);
}

/// A revocation hits the attempt that holds and no other.
pub async fn a_revocation_hits_the_attempt_that_holds_and_no_other(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let mut inbox = must(subject.store().inbox(id.client).await);
    // Some stores listen only for clients that wait for something.
    let other = Bench::new(subject);
    other.take(somebody(), ALONE).await;
    other.wait_if_queued(HolderId { attempt: 2, ..id }, ALONE).await;
    bench.take(id, ALONE).await;
    assert!(!bench.revoke(HolderId { attempt: 2, ..id }, true).await);
    assert!(bench.revoke(id, false).await);
    assert_eq!(bench.renew(id).await, Reply::Revoked);
    assert!(bench.is_busy(ALONE).await, "until its holder lets go");
    if subject.can().wakes {
        let message = subject.drive(next_but_gaps(&mut *inbox)).await;
        assert_eq!(message, Message::Revoked { attempt: 1, forced: false });
    }
    assert!(bench.release(id).await);
}

/// A forced revocation passes the lock immediately to the first waiter.
pub async fn a_forced_revocation_hands_the_lock_on_at_once(subject: &Subject) {
    let (bench, id, waiter) = (Bench::new(subject), somebody(), somebody());
    bench.take(id, ALONE).await;
    bench.wait_if_queued(waiter, ALONE).await;
    assert!(bench.revoke(id, true).await);
    if !subject.can().queued {
        bench.take(waiter, ALONE).await;
    }
    assert_eq!(bench.holders().await, [waiter]);
    assert!(!matches!(bench.renew(id).await, Reply::Kept { .. }));
    if subject.can().recorded_tokens {
        assert_eq!(bench.ask(id, ALONE).await, Reply::Closed, "a late copy");
    }
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

/// An operator sees the holders and the waiters, and since when they hold or wait.
pub async fn an_operator_sees_who_holds_and_who_waits(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(holder, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    subject.pass(Duration::from_millis(30)).await;
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.mode, held.token), (holder, ALONE, Some(token)));
    assert!(held.held_for >= Duration::from_millis(20) && held.ttl_left < LONG);
    assert!(held.held_for < LONG, "a lease that nobody renews has not ended: {held:?}");
    assert_eq!(held.info, who());
    if !subject.can().queued {
        return assert_eq!((status.waiters.len(), status.waiting), (0, 0));
    }
    let [waits] = &status.waiters[..] else { panic!("{status:?}") };
    assert_eq!((waits.id, waits.mode, waits.position), (waiter, ALONE, 1));
    assert!(waits.waited >= Duration::from_millis(20));
    assert_eq!(waits.info, who());
    assert_eq!(status.waiting, 1);
}

/// Names are listed by prefix, and only while in use: of a released name nothing is listed, even
/// if others have waited for it, or an attempt was closed.
pub async fn names_are_listed_by_prefix_and_only_while_in_use(subject: &Subject) {
    let bench = Bench::new(subject);
    let named = |last: &str| must(LockName::new(format!("{}/{last}", bench.name)));
    let (one, two) = (named("*one"), named("two"));
    let (idle, awaited, closed) = (named("idle"), named("awaited"), named("closed"));
    for name in [&one, &two, &idle, &awaited, &closed] {
        let bench = Bench::of(subject, name.clone());
        let (id, waiter) = (somebody(), somebody());
        bench.take(id, ALONE).await;
        if *name == awaited {
            bench.wait_if_queued(waiter, ALONE).await;
        }
        if ![&one, &two].contains(&name) {
            bench.end(bench.ending(id).with_closes(*name == closed)).await;
            bench.release(waiter).await;
        }
    }
    assert_eq!(walk(&bench, "", 10).await, [one.clone(), two]);
    assert_eq!(walk(&bench, "*", 10).await, [one], "no pattern, only text");
}

/// The names on all pages that begin with the bench's name and `prefix`.
async fn walk(bench: &Bench<'_>, prefix: &str, keys: u32) -> Vec<LockName> {
    let (mut names, mut after) = (BTreeSet::new(), None);
    loop {
        let prefix = format!("{}/{prefix}", bench.name);
        let operation = Operation::List { prefix, after, keys };
        let Reply::Page(page) = bench.execute(operation).await.reply else { panic!() };
        assert!(page.names.len() <= page.scanned as usize, "{page:?}");
        names.extend(page.names);
        after = page.next;
        if after.is_none() {
            return names.into_iter().collect();
        }
    }
}

/// A walk over the pages ends, and lists every name that is in use during the whole walk.
pub async fn a_walk_over_pages_comes_by_every_name_in_use(subject: &Subject) {
    let bench = Bench::new(subject);
    let named = |last: &str| must(LockName::new(format!("{}/{last}", bench.name)));
    let mut used: Vec<_> = (0..7).map(|number| named(&number.to_string())).collect();
    for name in used.iter().chain([&named("idle"), &named("*")]) {
        let bench = Bench::of(subject, name.clone());
        let id = somebody();
        bench.take(id, ALONE).await;
        if name.as_str().ends_with("idle") {
            bench.release(id).await;
        }
    }
    used.push(named("*"));
    used.sort();
    for keys in [3, 1000] {
        assert_eq!(walk(&bench, "", keys).await, used, "{keys} keys at a time");
    }
    assert_eq!(walk(&bench, "*", 2).await, [named("*")], "no pattern, only text");
    assert_eq!(walk(&bench, "none", 2).await, []);
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
