//! What one step does to a lease: it is handed out, forgotten, held back, revoked, or closed.

use leasehold_core::model::{self, ASK_INTERVAL, BALLOT_LEAD, MAX_CLOSED, Record};
use leasehold_core::{
    Action, ClientId, FencingToken, HoldState, HolderId, HolderInfo, Mode, PassedOn, Refusal,
    Reply, Request, Take,
};

use super::state::{id, span};
use super::store::{
    Store, TTL_MS, busy, described, end, granted, is_granted, is_queued, keep, place, take, token,
};

/// A client that takes over the lease of client 1.
fn over(client: u8, mode: Mode) -> Take {
    take(client, mode).with_waits(false).with_from(Some(id(1)))
}

#[test]
fn a_lease_that_was_revoked_or_has_ended_is_taken_over_by_nobody() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut store = Store::new();
        store.take(1, mode);
        store.revoke(1, false);
        assert_eq!(store.ask(over(2, mode)), Reply::Revoked);
        store.end(1);
        assert!(matches!(store.ask(over(2, mode)), Reply::Closed | Reply::NotHeld));
        store.take(1, mode);
        store.after(TTL_MS + 1);
        assert!(matches!(store.ask(over(2, mode)), Reply::Closed | Reply::NotHeld));
    }
}

#[test]
fn only_a_store_in_quarantine_gives_a_forgotten_lease_back() {
    let mut store = Store::new();
    let forgotten = store.now().token_us - 7;
    let claim = Some(FencingToken::from_micros(forgotten));
    let claim = take(1, Mode::Exclusive).with_claim(claim);
    assert_eq!(store.ask(claim.clone()), Reply::NotHeld);
    store.rules.in_quarantine = true;
    let place = place(&store.take(2, Mode::Exclusive));
    assert_eq!(place.retry_after, ASK_INTERVAL, "nothing new");
    assert_eq!(store.ask(claim.clone()), Reply::NotHeld, "somebody waits");
    store.end(2);
    assert_eq!(store.ask(claim.clone()), granted(forgotten));
    assert_eq!(store.ask(claim), granted(forgotten), "a copy");
    assert_eq!(store.keep(1), Reply::Kept { contended: false });
    assert!(store.counter >= forgotten);
    let ahead = store.now().token_us + BALLOT_LEAD.as_micros() as u64 + 1;
    let ahead = take(3, Mode::Shared).with_claim(Some(FencingToken::from_micros(ahead)));
    let mut empty = Store::new();
    empty.rules.in_quarantine = true;
    assert_eq!(empty.ask(ahead), Reply::Refused(Refusal::Ballot));
}

#[test]
fn nobody_is_granted_a_token_while_a_name_is_held_back() {
    let mut store = Store::held();
    store.take(2, Mode::Exclusive);
    store.rules.held_back = true;
    let counter = store.counter;
    assert_eq!(store.ask(over(3, Mode::Exclusive)), busy(100));
    assert_eq!(store.keep(1), Reply::Kept { contended: true });
    assert!(store.end(1).is_empty(), "it ends, and is handed on to nobody");
    assert_eq!(place(&store.take(2, Mode::Exclusive)).retry_after, span(100));
    assert_eq!(store.attempt(4, Mode::Shared), busy(100));
    let claim = Some(FencingToken::from_micros(counter));
    store.rules.in_quarantine = true;
    store.end(2);
    let claimed = store.ask(take(1, Mode::Exclusive).with_claim(claim));
    assert_eq!(claimed, Reply::NotHeld);
    store.rules.in_quarantine = false;
    assert!(is_queued(&store.take(2, Mode::Exclusive)));
    assert!(store.look().holders.is_empty());
    store.rules.held_back = false;
    assert!(token(&store.take(2, Mode::Exclusive)) > counter);
}

#[test]
fn no_token_is_below_the_ballot_of_its_caller_or_far_behind_the_clock() {
    let lead_us = BALLOT_LEAD.as_micros() as u64;
    let ballot =
        |store: &mut Store, ballot| store.ask(take(1, Mode::Exclusive).with_ballot(Some(ballot)));
    let now_us = Store::new().now().token_us;
    assert_eq!(ballot(&mut Store::new(), now_us + 5), granted(now_us + 5));
    assert_eq!(ballot(&mut Store::new(), now_us - 5), granted(now_us - 5));
    let least = granted(now_us - lead_us);
    assert_eq!(ballot(&mut Store::new(), 5), least, "the node may have lost its counter");
    let mut store = Store { counter: now_us + 7, ..Store::new() };
    assert_eq!(ballot(&mut store, now_us), granted(now_us + 8));
    let far = now_us + lead_us + 1;
    assert_eq!(ballot(&mut Store::new(), far), Reply::Refused(Refusal::Ballot));
    let mut held = Store::held();
    let adopter = over(2, Mode::Exclusive).with_ballot(Some(far));
    assert_eq!(held.ask(adopter), Reply::Refused(Refusal::Ballot));
    assert_eq!(held.look().holders[0].id, id(1));
}

#[test]
fn a_description_raises_a_token_and_never_lowers_it() {
    let mut store = Store::held();
    let first = store.counter;
    let mut describe = |token| {
        let keep = keep(1).with_description(described(token, HolderInfo::new("host", 7)));
        let reply = store.step(&Action::Keep(keep)).0;
        let shown = store.look().holders[0].token.map(FencingToken::micros);
        (reply, shown, store.counter)
    };
    let kept = Reply::Kept { contended: false };
    assert_eq!(describe(first + 9), (kept.clone(), Some(first + 9), first + 9));
    assert_eq!(describe(first + 3), (kept, Some(first + 9), first + 9));
    let far = first + 10 + BALLOT_LEAD.as_micros() as u64;
    let refused = Reply::Refused(Refusal::Ballot);
    assert_eq!(describe(far), (refused, Some(first + 9), first + 9));
    store.end(1);
    assert!(token(&store.take(2, Mode::Exclusive)) > first + 9, "as its node has agreed");
}

#[test]
fn a_lease_that_was_passed_on_is_shown_as_its_holders_and_a_late_word_changes_nothing() {
    let mut store = Store::held();
    let grant = store.counter;
    for times in [2, 1] {
        let passed_on = PassedOn { times, after: span(times.into()) };
        let info = HolderInfo::new("host", 7).with_passed_on(passed_on);
        let keep = keep(1).with_description(described(grant, info));
        store.step(&Action::Keep(keep));
    }
    let holder = store.after(1_000).look().holders.remove(0);
    let second = FencingToken::from_micros(grant).passed_on(2);
    assert_eq!((holder.token, holder.held_for), (second, span(998)));
}

#[test]
fn an_attempt_that_has_ended_is_remembered_while_a_copy_may_arrive() {
    let mut store = Store::held();
    let closed_ms = store.rules.times.closed_ms;
    store.take(2, Mode::Exclusive);
    store.step(&Action::End(end(2).with_closes(true)));
    store.step(&Action::End(end(1).with_closes(true)));
    assert_eq!(store.take(1, Mode::Exclusive), Reply::Closed);
    let now = store.now();
    let quick = super::quick::set(&mut store.record, &mut store.counter, now, (id(2), TTL_MS));
    assert_eq!(quick, None, "one command finds the gate that is closed to it");
    assert!(is_granted(&store.take(3, Mode::Exclusive)), "others pass");
    store.end(3);
    assert_eq!(store.after(closed_ms).take(2, Mode::Exclusive), Reply::Closed);
    store.after(1);
    assert_eq!(store.look().holders, []);
    assert!(is_granted(&store.take(2, Mode::Exclusive)));
    store.end(2);
    assert_eq!(store.record, Record::default());
}

#[test]
fn the_oldest_of_too_many_attempts_that_have_ended_is_forgotten() {
    let mut store = Store::new();
    let attempt = |client: u128| {
        let id = HolderId { client: ClientId(client), attempt: 5 };
        Request::new(id, Mode::Exclusive, HolderInfo::default())
    };
    for client in 0..=MAX_CLOSED as u128 {
        let end = leasehold_core::End::new(attempt(client)).with_closes(true);
        store.step(&Action::End(end));
    }
    assert_eq!(store.record.closed.len(), MAX_CLOSED);
    assert_eq!(store.ask(Take::new(attempt(1), span(TTL_MS))), Reply::Closed);
    assert!(is_granted(&store.ask(Take::new(attempt(0), span(TTL_MS)))));
}

#[test]
fn a_hold_that_was_ended_by_force_does_not_come_back() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut store = Store::new();
        store.take(1, mode);
        store.take(2, Mode::Exclusive);
        let (reply, told) = store.step(&Action::Revoke { id: id(1), force: true });
        assert_eq!((reply, told), (Reply::Ended(true), vec![2]));
        assert_eq!(store.keep(1), Reply::Revoked, "if it has not heard the message");
        assert_eq!(store.take(1, mode), Reply::Closed, "a late copy");
        assert_eq!(store.revoke(1, true), Reply::Ended(false), "it is not there any more");
    }
}

#[test]
fn a_reader_that_was_revoked_may_go_on_until_its_deadline_and_is_never_renewed() {
    let mut store = Store::new();
    let closed_ms = store.rules.times.closed_ms;
    store.ask(take(1, Mode::Shared).with_ttl(span(3 * closed_ms)));
    store.take(2, Mode::Shared);
    assert_eq!(store.revoke(1, false), Reply::Ended(true));
    assert_eq!(store.after(1).keep(1), Reply::Revoked);
    let states: Vec<_> = store.look().holders.iter().map(|holder| holder.state).collect();
    assert_eq!(states, [HoldState::Revoked, HoldState::Claimed]);
    store.revoke(2, true);
    assert_eq!(store.after(2 * closed_ms).keep(1), Reply::Revoked);
    assert_eq!(store.look().holders.len(), 1);
    assert_eq!(store.after(closed_ms).look().holders.len(), 0);
}

#[test]
fn the_end_of_a_client_ends_all_that_it_has_and_serves_those_that_wait() {
    let mut store = Store::new();
    store.take(1, Mode::Shared);
    store.take(2, Mode::Exclusive);
    store.take(3, Mode::Shared);
    let mut reap = |client: u8| {
        let now = store.now();
        let (record, counter) = (&mut store.record, &mut store.counter);
        let outcome = model::reap(record, counter, now, store.rules, ClientId(client.into()));
        (outcome.reply, outcome.messages.len())
    };
    assert_eq!(reap(2), (Reply::Ended(false), 0), "it only waited");
    assert_eq!(reap(1), (Reply::Ended(true), 1));
    assert_eq!(reap(1), (Reply::Ended(false), 0));
    assert_eq!(store.look().holders[0].id, id(3));
    assert_eq!(store.record.queue.len(), 0);
}
