//! Cases that call the store directly: one exclusive lock, its queue and its operators.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::admin::{HolderId, HolderInfo};
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::{Action, Cancelled, Message, Operation, Place, RenewLease, Reply};
use leasehold::{FencingToken, LockName};

use crate::bench::{AFTER_SHORT, Bench, LONG, SHORT, granted, renewal, somebody, who};
use crate::subject::{Subject, must};

const ALONE: Mode = Mode::Exclusive;

/// A free lock is granted immediately. Its ttl counts from a moment within the call, and may be a
/// millisecond longer if a store counts in milliseconds.
pub async fn a_free_lock_is_granted_at_once(subject: &Subject) {
    let bench = Bench::new(subject);
    let request = bench.request(somebody(), ALONE).await;
    let answer = bench.answer(Action::Acquire(request)).await;
    let grant = granted(answer.reply);
    // A store of several servers returns the time at which the call began, and asks some servers
    // later.
    let after = bench.answer(Action::Inspect { limit: 0 }).await.now;
    let from_us = [answer.now.lease_us, after.lease_us + 1_000];
    let [earliest, latest] = from_us.map(|from_us| from_us + LONG.as_micros() as u64);
    assert!((earliest..latest).contains(&grant.deadline_us), "{grant:?} from {from_us:?} on");
    assert!(!grant.contended && !answer.more);
}

/// A copy of an acquire gets the same grant again.
pub async fn a_copy_of_an_acquire_gets_the_same_grant_again(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let first = bench.take(id, ALONE).await;
    assert_eq!(bench.take(id, ALONE).await.token, first.token);
    assert_eq!(bench.holders().await, [id]);
}

/// Without a queue, an attempt that would have to wait is answered with busy, and leaves nothing
/// behind.
pub async fn without_a_queue_an_attempt_that_would_wait_is_told_so(subject: &Subject) {
    if subject.can().queued {
        return;
    }
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let reply = bench.acquire(waiter, ALONE).await;
    assert!(matches!(reply, Reply::Busy { .. }), "{reply:?}");
    assert_eq!(bench.poll(waiter).await, Reply::Gone);
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
    let in_milliseconds = LONG + Duration::from_millis(2);
    assert!(retry_after <= in_milliseconds, "{retry_after:?}");
}

/// If many clients ask at the same time, one is granted.
pub async fn of_many_who_ask_at_once_one_is_granted(subject: &Subject) {
    let bench = Bench::new(subject);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..30 {
        let request = bench.request(somebody(), ALONE).await.with_wait(false);
        let (store, name) = (subject.store(), bench.name.clone());
        let action = Action::Acquire(request);
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
        assert_eq!(bench.release(pair[0]).await, Reply::Released);
        assert_eq!(bench.holders().await, [pair[1]], "in the same step");
        granted(bench.poll(pair[1]).await);
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
    let Reply::Queued(Place { ahead: 1, .. }) = bench.poll(second).await else {
        panic!("one is ahead");
    };
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
    bench.wait(other, ALONE).await;
    bench.release(holder).await;
    let message = subject.drive(next_but_gaps(&mut *inbox)).await;
    let [held] = &bench.status().await.holders[..] else { panic!("one holds") };
    match message {
        Message::Granted { attempt, nonce, token, now_us, deadline_us } => {
            assert_eq!((attempt, nonce, token), (waiter.attempt, 7, held.token));
            assert!(now_us < deadline_us);
        }
        other => panic!("{other:?}"),
    }
    bench.release(waiter).await;
    let message = subject.drive(next_but_gaps(&mut *others)).await;
    let last = bench.status().await.last_token;
    assert!(matches!(message, Message::Granted { token, .. } if Some(token) == last));
}

async fn next_but_gaps(inbox: &mut dyn leasehold::store::Inbox) -> Message {
    loop {
        match inbox.next().await {
            Message::Gap => {}
            message => return message,
        }
    }
}

/// A hand-over that nobody confirms goes to the next, after the claim window at the latest.
pub async fn a_hand_over_that_nobody_confirms_goes_to_the_next(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, holder, silent, next) = (Bench::new(subject), somebody(), somebody(), somebody());
    bench.take(holder, ALONE).await;
    let request = bench.request(silent, ALONE).await.with_ttl(SHORT);
    bench.act(Action::Acquire(request)).await;
    bench.wait(next, ALONE).await;
    bench.release(holder).await;
    subject.pass(AFTER_SHORT).await;
    granted(bench.poll(next).await);
    assert_eq!(bench.poll(silent).await, Reply::Gone);
}

/// A lapsed lease goes to the waiter that polls, and its former holder gets a message.
pub async fn a_lapsed_lease_goes_to_the_waiter_that_polls(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let lapsed = bench.take_briefly(holder, ALONE).await;
    subject.pass(AFTER_SHORT).await;
    let grant = bench.take(waiter, ALONE).await;
    assert!(grant.token > lapsed.token);
    for reply in [bench.renew(holder).await, bench.release(holder).await] {
        assert_eq!(reply, Reply::NotHeld { newest: Some(grant.token) });
    }
    if subject.can().recorded_tokens {
        assert_eq!(bench.acquire(holder, ALONE).await, Reply::Stale, "a late copy of its acquire");
    }
}

/// A waiter that never asks again is skipped.
pub async fn a_waiter_that_is_never_seen_again_is_skipped(subject: &Subject) {
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
        if let Reply::Granted(_) = bench.poll(alive).await {
            return;
        }
        subject.pass(Duration::from_millis(500)).await;
    }
    panic!("nobody was skipped");
}

/// A cancelled waiter is gone, and if it was granted, the grant is handed on in the same step.
pub async fn a_cancelled_waiter_is_gone_and_its_grant_is_handed_on(subject: &Subject) {
    if !subject.can().queued {
        return;
    }
    let (bench, ids) = (Bench::new(subject), [somebody(), somebody(), somebody(), somebody()]);
    bench.take(ids[0], ALONE).await;
    for id in &ids[1..] {
        bench.wait(*id, ALONE).await;
    }
    assert_eq!(bench.cancel(ids[1]).await, Reply::Cancelled(Cancelled::Removed));
    bench.release(ids[0]).await;
    assert_eq!(bench.holders().await, [ids[2]]);
    assert_eq!(bench.cancel(ids[2]).await, Reply::Cancelled(Cancelled::Released));
    assert_eq!(bench.holders().await, [ids[3]]);
}

/// A late copy of a cancelled acquire is stale.
pub async fn a_late_copy_of_a_cancelled_acquire_is_stale(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, id) = (Bench::new(subject), somebody());
    assert_eq!(bench.cancel(id).await, Reply::Cancelled(Cancelled::Unknown));
    assert_eq!(bench.acquire(id, ALONE).await, Reply::Stale);
    bench.take(HolderId { attempt: 2, ..id }, ALONE).await;
}

/// An acquire that arrives after its time limit is refused as late.
pub async fn an_acquire_after_its_time_is_late(subject: &Subject) {
    let bench = Bench::new(subject);
    let request = bench.request(somebody(), ALONE).await;
    let not_after_us = request.not_after_us - 10_000_001;
    let late = request.with_not_after(not_after_us);
    assert_eq!(bench.act(Action::Acquire(late)).await, Reply::Late);
    assert!(!bench.is_busy(ALONE).await);
}

/// A renewal moves the deadline and revives nothing.
pub async fn a_renewal_moves_the_deadline_and_revives_nothing(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let first = bench.take(id, ALONE).await;
    subject.pass(Duration::from_millis(20)).await;
    let second = granted(bench.renew(id).await);
    assert!(second.deadline_us > first.deadline_us && second.token == first.token);
    let shorter = granted(bench.act(renewal(id, SHORT)).await);
    // The clocks of several nodes are read over the network.
    let moved = shorter.deadline_us.abs_diff(second.deadline_us);
    assert!(moved < LONG.as_micros() as u64 / 2, "never shortens, but by {moved} µs");
    bench.release(id).await;
    let newest = subject.can().recorded_tokens.then_some(first.token);
    assert_eq!(bench.renew(id).await, Reply::NotHeld { newest });
}

/// Many leases are renewed in one call and answered in order.
pub async fn many_leases_are_renewed_in_one_call_and_answered_in_order(subject: &Subject) {
    let mut leases = Vec::new();
    for index in 0..130_u32 {
        let (bench, id) = (Bench::new(subject), somebody());
        if index % 3 > 0 {
            bench.take(id, ALONE).await;
        }
        leases.push(RenewLease::new(bench.name, id, LONG));
    }
    let Reply::Many(replies) = Bench::new(subject).execute(Operation::Renew(leases)).await.reply
    else {
        panic!("not many replies")
    };
    assert_eq!(replies.len(), 130);
    for (index, reply) in replies.iter().enumerate() {
        let is_held = matches!(reply, Reply::Granted(_));
        assert_eq!(is_held, index % 3 > 0, "{index}: {reply:?}");
    }
}

/// A release by another client, or for another attempt, changes nothing.
pub async fn a_release_by_somebody_else_touches_nobody(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let token = bench.take(id, ALONE).await.token;
    let another = HolderId { attempt: id.attempt + 1, ..id };
    for other in [somebody(), another] {
        assert_eq!(bench.release(other).await, Reply::NotHeld { newest: Some(token) });
    }
    assert_eq!(bench.holders().await, [id]);
}

/// A name in cooldown stays taken, without a holder, until the cooldown is over.
pub async fn a_kept_name_stays_taken_until_its_time_is_over(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    bench.take(id, ALONE).await;
    let release = Action::Release { id, cooldown: LONG, unanswered: false };
    assert_eq!(bench.act(release).await, Reply::Released);
    assert!(bench.is_busy(ALONE).await);
    assert!(matches!(bench.renew(id).await, Reply::NotHeld { .. }));
    // An attempt belongs to one name, so another name needs another attempt.
    let (short, id) = (Bench::new(subject), somebody());
    short.take(id, ALONE).await;
    short.act(Action::Release { id, cooldown: SHORT, unanswered: false }).await;
    subject.pass(AFTER_SHORT).await;
    assert!(!short.is_busy(ALONE).await);
}

/// A revocation hits the token that was seen and no other.
pub async fn a_revocation_hits_the_token_that_was_seen_and_no_other(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    let mut inbox = must(subject.store().inbox(id.client).await);
    // Some stores listen only for clients that wait for something.
    let other = Bench::new(subject);
    other.take(somebody(), ALONE).await;
    other.wait_if_queued(HolderId { attempt: 2, ..id }, ALONE).await;
    let token = bench.take(id, ALONE).await.token;
    let wrong = FencingToken::from_micros(token.micros() - 1);
    assert_eq!(bench.revoke(id, wrong, true).await, Reply::Revoked(false));
    assert_eq!(bench.revoke(id, token, false).await, Reply::Revoked(true));
    assert_eq!(bench.renew(id).await, Reply::Revoked(true));
    assert!(bench.is_busy(ALONE).await, "until its holder lets go");
    if subject.can().wakes {
        let message = subject.drive(next_but_gaps(&mut *inbox)).await;
        let Message::Revoked { attempt: 1, token: told, forced: false, .. } = message else {
            panic!("{message:?}")
        };
        assert_eq!(told, token);
    }
    assert_eq!(bench.release(id).await, Reply::Released);
}

/// A forced revocation passes the lock immediately to the first waiter.
pub async fn a_forced_revocation_hands_the_lock_on_at_once(subject: &Subject) {
    let (bench, id, waiter) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(id, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    assert_eq!(bench.revoke(id, token, true).await, Reply::Revoked(true));
    if !subject.can().queued {
        bench.take(waiter, ALONE).await;
    }
    assert_eq!(bench.holders().await, [waiter]);
}

/// A holder can change the value that it publishes, and nobody else can.
pub async fn a_holder_changes_what_it_says_of_itself_and_nobody_else_does(subject: &Subject) {
    let (bench, id, waiter) = (Bench::new(subject), somebody(), somebody());
    let grant = bench.take(id, ALONE).await;
    bench.wait_if_queued(waiter, ALONE).await;
    let info = |label: &str| HolderInfo::new("h", 7).with_label(Some(label.to_owned()));
    let said = granted(bench.act(Action::Describe { id, info: info("ünï") }).await);
    assert_eq!((said.token, said.deadline_us), (grant.token, grant.deadline_us));
    let reply = bench.act(Action::Describe { id: waiter, info: info("no") }).await;
    assert!(matches!(reply, Reply::NotHeld { .. }), "{reply:?}");
    let status = bench.status().await;
    assert_eq!(status.holders[0].info, info("ünï"));
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
    let adopt = bench.adoption(first, (holder, handed_out), ALONE).await;
    let token = granted(bench.act(Action::Adopt(adopt.clone())).await).token;
    assert!(token > handed_out);
    assert_eq!(granted(bench.act(Action::Adopt(adopt)).await).token, token, "a copy");
    let late = bench.adoption(second, (holder, handed_out), ALONE).await;
    let is_over = |reply: Reply| match reply {
        // With several nodes, a node that the adoption did not need may have issued a higher token.
        Reply::NotHeld { newest } => newest >= Some(token),
        other => panic!("{other:?}"),
    };
    assert!(is_over(bench.act(Action::Adopt(late)).await));
    assert!(is_over(bench.renew(holder).await));
    assert!(is_over(bench.release(holder).await));
    assert_eq!(bench.holders().await, [first]);
    assert_eq!(granted(bench.renew(first).await).token, token);
    assert_eq!(bench.release(first).await, Reply::Released);
    let next = if subject.can().queued { vec![waiter] } else { vec![] };
    assert_eq!(bench.holders().await, next);
}

/// Nobody can adopt a lapsed lease.
pub async fn a_lapsed_lease_is_adopted_by_nobody(subject: &Subject) {
    let (bench, holder, id) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take_briefly(holder, ALONE).await.token;
    subject.pass(AFTER_SHORT).await;
    let adopt = bench.adoption(id, (holder, token), ALONE).await;
    let reply = bench.act(Action::Adopt(adopt)).await;
    assert!(matches!(reply, Reply::NotHeld { .. }), "{reply:?}");
    assert!(bench.holders().await.is_empty());
}

/// An adoption that was given up is not done when its request arrives late, and the lease is
/// unchanged.
pub async fn an_adoption_that_was_given_up_is_not_done_when_it_comes_late(subject: &Subject) {
    if !subject.can().recorded_tokens {
        return;
    }
    let (bench, holder, first, second) = (Bench::new(subject), somebody(), somebody(), somebody());
    let token = bench.take(holder, ALONE).await.token;
    let late = bench.adoption(first, (holder, token), ALONE).await;
    bench.act(Action::Cancel { id: first, unanswered: true }).await;
    assert_eq!(bench.act(Action::Adopt(late)).await, Reply::Stale);
    assert_eq!(bench.holders().await, [holder]);
    let adopt = bench.adoption(second, (holder, token), ALONE).await;
    granted(bench.act(Action::Adopt(adopt.clone())).await);
    bench.act(Action::Cancel { id: second, unanswered: true }).await;
    assert!(bench.holders().await.is_empty());
    assert_eq!(bench.act(Action::Adopt(adopt)).await, Reply::Stale);
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
    if subject.can().recorded_tokens {
        assert_eq!(bench.status().await.last_token, last);
    }
}

/// An operator sees the holders and the waiters, and since when they hold or wait.
pub async fn an_operator_sees_who_holds_and_who_waits(subject: &Subject) {
    let (bench, holder, waiter) = (Bench::new(subject), somebody(), somebody());
    let token = bench.take(holder, ALONE).await.token;
    bench.wait_if_queued(waiter, ALONE).await;
    subject.pass(Duration::from_millis(20)).await;
    let status = bench.status().await;
    let [held] = &status.holders[..] else { panic!("{status:?}") };
    assert_eq!((held.id, held.mode, held.token), (holder, ALONE, token));
    assert!(held.held_for >= Duration::from_millis(20) && held.ttl_left < LONG);
    assert!(held.held_for < LONG, "a lease that nobody renews has not ended: {held:?}");
    assert_eq!(held.info, who());
    assert_eq!(status.last_token, Some(token));
    if !subject.can().queued {
        return assert_eq!((status.waiters.len(), status.waiting), (0, 0));
    }
    let [waits] = &status.waiters[..] else { panic!("{status:?}") };
    assert_eq!((waits.id, waits.mode, waits.position), (waiter, ALONE, 1));
    assert!(waits.waited >= Duration::from_millis(20));
    assert_eq!(waits.info, who());
    assert_eq!(status.waiting, 1);
}

/// Names are listed by prefix, and only while in use.
pub async fn names_are_listed_by_prefix_and_only_while_in_use(subject: &Subject) {
    let bench = Bench::new(subject);
    let named = |last: &str| must(LockName::new(format!("{}/{last}", bench.name)));
    let (one, two, idle) = (named("*one"), named("two"), named("idle"));
    for name in [&one, &two, &idle] {
        let bench = Bench { subject, name: name.clone() };
        let id = somebody();
        bench.take(id, ALONE).await;
        if *name == idle {
            bench.release(id).await;
        }
    }
    let list = async |prefix: &str, limit| {
        let operation = Operation::List { prefix: format!("{}/{prefix}", bench.name), limit };
        let Reply::Names(mut names) = bench.execute(operation).await.reply else { panic!() };
        names.sort();
        names
    };
    assert_eq!(list("", 10).await, [one.clone(), two]);
    assert_eq!(list("*", 10).await, std::slice::from_ref(&one), "no pattern, only text");
    assert_eq!(list("", 1).await.len(), 1);
}

/// A walk over the pages ends, and lists every name that is in use during the whole walk.
pub async fn a_walk_over_pages_comes_by_every_name_in_use(subject: &Subject) {
    let bench = Bench::new(subject);
    let named = |last: &str| must(LockName::new(format!("{}/{last}", bench.name)));
    let mut used: Vec<_> = (0..7).map(|number| named(&number.to_string())).collect();
    for name in used.iter().chain([&named("idle"), &named("*")]) {
        let bench = Bench { subject, name: name.clone() };
        let id = somebody();
        bench.take(id, ALONE).await;
        if name.as_str().ends_with("idle") {
            bench.release(id).await;
        }
    }
    used.push(named("*"));
    used.sort();
    let walk = async |prefix: &str, keys| {
        let (mut names, mut after) = (BTreeSet::new(), None);
        loop {
            let prefix = format!("{}/{prefix}", bench.name);
            let operation = Operation::ListPage { prefix, after, keys };
            let Reply::Page(page) = bench.execute(operation).await.reply else { panic!() };
            assert!(page.names.len() <= page.scanned as usize, "{page:?}");
            names.extend(page.names);
            after = page.next;
            if after.is_none() {
                return names.into_iter().collect::<Vec<_>>();
            }
        }
    };
    for keys in [3, 1000] {
        assert_eq!(walk("", keys).await, used, "{keys} keys at a time");
    }
    assert_eq!(walk("*", 2).await, [named("*")], "no pattern, only text");
    assert_eq!(walk("none", 2).await, []);
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
        let bench = Bench { subject, name };
        bench.take(somebody(), ALONE).await;
    }
    for name in &names {
        let bench = Bench { subject, name: must(LockName::new(name)) };
        assert!(bench.is_busy(ALONE).await, "{name}");
    }
}

/// Asking about an unknown name leaves nothing behind.
pub async fn asking_about_an_unknown_name_leaves_nothing_behind(subject: &Subject) {
    let (bench, id) = (Bench::new(subject), somebody());
    assert_eq!(bench.poll(id).await, Reply::Gone);
    assert_eq!(bench.renew(id).await, Reply::NotHeld { newest: None });
    assert_eq!(bench.release(id).await, Reply::NotHeld { newest: None });
    assert_eq!(bench.status().await, leasehold::admin::Status::default());
}
