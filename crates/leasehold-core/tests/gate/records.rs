//! What one step does to a record, where no order of events matters.

use leasehold_core::{HolderInfo, Mode, Now};

use super::model::{
    self, Action, Description, End, Gate, Hold, Record, Refusal, Reply, Rules, State, Take, Times,
};
use super::state::id;

const START_MS: u64 = 1_000_000;
const TTL_MS: u64 = 30_000;

/// A record, its counter, and the time.
struct Store {
    record: Record,
    counter: u64,
    now_ms: u64,
    rules: Rules,
}

impl Store {
    fn new() -> Self {
        let record = Record::default();
        Self { record, counter: 0, now_ms: START_MS, rules: Rules::NORMAL }
    }

    fn now(&self) -> Now {
        Now { lease_us: self.now_ms * 1_000, token_us: self.now_ms * 1_000 }
    }

    fn step(&mut self, action: &Action) -> (Reply, Vec<u8>) {
        let now = self.now();
        let outcome = model::step(&mut self.record, &mut self.counter, now, self.rules, action);
        let told = outcome.messages.iter().map(|granted| granted.id.client.0 as u8);
        (outcome.reply, told.collect())
    }

    fn take(&mut self, client: u8, mode: Mode) -> Reply {
        self.step(&Action::Take(Take::new(id(client), mode, TTL_MS))).0
    }

    fn attempt(&mut self, client: u8, mode: Mode) -> Reply {
        let take = Take { waits: false, ..Take::new(id(client), mode, TTL_MS) };
        self.step(&Action::Take(take)).0
    }

    fn end(&mut self, client: u8) -> Vec<u8> {
        self.step(&Action::End(End::new(id(client), false))).1
    }

    fn after(&mut self, passed_ms: u64) -> &mut Self {
        self.now_ms += passed_ms;
        self
    }
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted { .. })
}

#[test]
fn a_name_that_nobody_awaits_leaves_nothing_behind() {
    let mut store = Store::new();
    assert!(is_granted(&store.take(1, Mode::Exclusive)));
    assert!(store.end(1).is_empty());
    assert_eq!(store.record, Record::default());
}

#[test]
fn one_command_and_the_script_take_a_free_name_alike() {
    let (mut one, mut other) = (Store::new(), Store::new());
    let now = one.now();
    let token = model::set(&mut one.record, &mut one.counter, now, (id(1), TTL_MS));
    let reply = other.take(1, Mode::Exclusive);
    assert_eq!(token.map(|token| Reply::Granted { token }), Some(reply));
    let Some(Gate { state: State::Held(hold), .. }) = &mut other.record.gate else { panic!() };
    hold.token = None;
    assert_eq!(one.record, other.record);
    let expected = Hold { id: id(1), token: None, info: HolderInfo::default() };
    assert!(model::delete(&mut one.record, now, &expected));
    assert_eq!(one.record, Record::default());
}

#[test]
fn one_command_deletes_nothing_that_somebody_awaits_or_that_was_described() {
    let mut store = Store::new();
    let now = store.now();
    let expected = Hold { id: id(1), token: None, info: HolderInfo::default() };
    model::set(&mut store.record, &mut store.counter, now, (id(1), TTL_MS));
    assert!(matches!(store.take(2, Mode::Exclusive), Reply::Queued { ahead: 0, .. }));
    assert!(!model::delete(&mut store.record, now, &expected));
    assert_eq!(store.end(1), [2], "the script hands the name on");

    let mut store = Store::new();
    let token = model::set(&mut store.record, &mut store.counter, now, (id(1), TTL_MS)).unwrap();
    let description = Some(Description { token, info: HolderInfo::new("host", 7) });
    let keep = Action::Keep { id: id(1), ttl_ms: TTL_MS, description };
    assert_eq!(store.step(&keep).0, Reply::Kept { awaited: false });
    assert!(!model::delete(&mut store.record, now, &expected));
    let described = Hold { id: id(1), token: Some(token), info: HolderInfo::new("host", 7) };
    assert!(model::delete(&mut store.record, now, &described));
}

#[test]
fn fifty_waiters_that_are_frozen_cost_two_claim_windows() {
    let mut store = Store::new();
    store.take(0, Mode::Exclusive);
    for frozen in 1..=50 {
        store.take(frozen, Mode::Exclusive);
    }
    let Times { ask_ms: second_ms, window_ms, .. } = Times::REAL;
    assert_eq!(store.end(0), [1]);
    while let Reply::Queued { ask_ms, .. } = store.take(51, Mode::Exclusive) {
        store.after(ask_ms);
        assert!(store.now_ms - START_MS <= 2 * (window_ms + second_ms), "waiter 51 still waits");
    }
    assert!(store.record.queue.is_empty());
}

#[test]
fn readers_share_a_name_and_a_writer_between_them_keeps_its_turn() {
    let mut store = Store::new();
    assert!(is_granted(&store.take(1, Mode::Shared)));
    assert!(is_granted(&store.take(2, Mode::Shared)));
    assert!(matches!(store.take(3, Mode::Exclusive), Reply::Queued { .. }));
    assert!(matches!(store.take(4, Mode::Shared), Reply::Queued { ahead: 1, .. }));
    assert!(store.end(1).is_empty());
    assert_eq!(store.end(2), [3]);
    assert_eq!(store.end(3), [4]);
    assert!(store.end(4).is_empty());
    assert_eq!(store.after(10).record.shares.len(), 0);
    assert_eq!(store.record.gate, None);
}

#[test]
fn permits_of_two_capacities_are_never_counted_together() {
    let permits = |count, capacity| Mode::Permits { count, capacity };
    let mut store = Store::new();
    assert!(is_granted(&store.take(1, permits(2, 3))));
    assert_eq!(store.attempt(2, permits(1, 5)), Reply::Refused(Refusal::Mismatch { capacity: 3 }));
    assert!(matches!(store.take(2, permits(1, 5)), Reply::Queued { .. }));
    assert!(matches!(store.take(3, permits(1, 3)), Reply::Queued { .. }), "in order");
    assert_eq!(store.end(1), [2]);
    assert_eq!(store.end(2), [3]);
    let mismatch = Reply::Refused(Refusal::Mismatch { capacity: 3 });
    assert_eq!(store.take(4, Mode::Exclusive), mismatch);
    assert_eq!(store.take(4, permits(4, 3)), Reply::Refused(Refusal::Weight));
}

#[test]
fn a_share_that_is_not_kept_ends_and_makes_room() {
    let permits = Mode::Permits { count: 1, capacity: 1 };
    let mut store = Store::new();
    assert!(is_granted(&store.take(1, permits)));
    assert!(matches!(store.take(2, permits), Reply::Queued { .. }));
    store.after(TTL_MS);
    let keep = Action::Keep { id: id(1), ttl_ms: TTL_MS, description: None };
    assert_eq!(store.step(&keep).0, Reply::Kept { awaited: true }, "in its last millisecond");
    store.after(TTL_MS);
    assert!(matches!(store.take(2, permits), Reply::Queued { .. }));
    store.after(1);
    assert!(is_granted(&store.take(2, permits)));
    assert_eq!(store.step(&keep).0, Reply::NotHeld);
}

#[test]
fn a_name_cools_down_and_says_who_held_it_last() {
    let mut store = Store::new();
    store.take(1, Mode::Exclusive);
    let remember = Some((60_000, HolderInfo::new("host", 7)));
    let end = End { cooldown_ms: 10_000, remember, ..End::new(id(1), false) };
    store.step(&Action::End(end));
    assert_eq!(store.attempt(2, Mode::Exclusive), Reply::Busy { left_ms: 10_000 });
    assert!(matches!(store.take(2, Mode::Exclusive), Reply::Queued { .. }));
    store.end(2);
    store.after(10_000);
    let now = store.now();
    let quick = model::set(&mut store.record, &mut store.counter, now, (id(3), TTL_MS));
    assert_eq!(quick, None, "what the gate says is not overwritten by one command");
    let (Reply::Status(status), _) = store.step(&Action::Look { limit: 9 }) else { panic!() };
    let last = status.last.expect("it says who held last");
    assert_eq!((last.id, last.ended_ms, status.cools_ms), (id(1), START_MS, None));
    assert!(is_granted(&store.attempt(2, Mode::Exclusive)));
    store.end(2);
    assert_eq!(store.record, Record::default());
}

#[test]
fn a_revoked_hold_ends_at_its_deadline_and_nobody_learns_that_its_job_was_done() {
    let mut store = Store::new();
    store.take(1, Mode::Exclusive);
    let revoke = Action::Revoke { id: id(1), force: false };
    assert_eq!(store.step(&revoke).0, Reply::Ended(true));
    let keep = Action::Keep { id: id(1), ttl_ms: 2 * TTL_MS, description: None };
    assert_eq!(store.step(&keep).0, Reply::Revoked);
    assert_eq!(store.attempt(2, Mode::Exclusive), Reply::Busy { left_ms: TTL_MS + 1 });
    let remember = Some((60_000, HolderInfo::default()));
    store.step(&Action::End(End { remember, ..End::new(id(1), false) }));
    assert_eq!(store.record, Record::default());
}

#[test]
fn a_lease_that_was_handed_out_as_a_value_is_taken_over_once() {
    let mut store = Store::new();
    let Reply::Granted { token } = store.take(1, Mode::Exclusive) else { panic!() };
    let over = |client, token| Take {
        from: Some((id(1), token)),
        waits: false,
        ..Take::new(id(client), Mode::Exclusive, TTL_MS)
    };
    assert_eq!(store.step(&Action::Take(over(2, token + 1))).0, Reply::NotHeld);
    let (Reply::Granted { token: newer }, _) = store.step(&Action::Take(over(2, token))) else {
        panic!()
    };
    assert!(newer > token);
    assert_eq!(store.step(&Action::Take(over(2, token))).0, Reply::Granted { token: newer });
    assert_eq!(store.step(&Action::Take(over(3, token))).0, Reply::NotHeld);
    assert_eq!(store.take(1, Mode::Exclusive), Reply::Closed, "a late copy of the first acquire");
}

#[test]
fn only_a_store_in_quarantine_gives_a_forgotten_lease_back() {
    let claim = Take { claim: Some(7), ..Take::new(id(1), Mode::Exclusive, TTL_MS) };
    let mut store = Store::new();
    assert_eq!(store.step(&Action::Take(claim.clone())).0, Reply::NotHeld);
    store.rules.in_quarantine = true;
    assert!(matches!(store.take(2, Mode::Exclusive), Reply::Queued { .. }), "nothing new");
    assert_eq!(store.step(&Action::Take(claim.clone())).0, Reply::NotHeld, "somebody waits");
    store.end(2);
    assert_eq!(store.step(&Action::Take(claim.clone())).0, Reply::Granted { token: 7 });
    assert_eq!(store.step(&Action::Take(claim)).0, Reply::Granted { token: 7 }, "a copy");
    let keep = Action::Keep { id: id(1), ttl_ms: TTL_MS, description: None };
    assert_eq!(store.step(&keep).0, Reply::Kept { awaited: false });
}

#[test]
fn no_token_is_below_the_ballot_of_its_caller_or_far_behind_the_clock() {
    let ballot = |store: &mut Store, ballot| {
        let take = Take::new(id(1), Mode::Exclusive, TTL_MS);
        store.step(&Action::Take(Take { ballot: Some(ballot), ..take })).0
    };
    const NOW_US: u64 = START_MS * 1_000;
    assert_eq!(ballot(&mut Store::new(), NOW_US + 5), Reply::Granted { token: NOW_US + 5 });
    assert_eq!(ballot(&mut Store::new(), NOW_US - 5), Reply::Granted { token: NOW_US - 5 });
    let least = Reply::Granted { token: NOW_US - 10_000_000 };
    assert_eq!(ballot(&mut Store::new(), 5), least, "the node may have lost its counter");
    let mut store = Store { counter: NOW_US + 7, ..Store::new() };
    assert_eq!(ballot(&mut store, NOW_US), Reply::Granted { token: NOW_US + 8 });
    let far = NOW_US + 10_000_001;
    assert_eq!(ballot(&mut Store::new(), far), Reply::Refused(Refusal::Ballot));
}

#[test]
fn the_queue_of_a_lock_and_its_place_numbers_survive_a_lost_queue() {
    let mut store = Store::new();
    store.take(0, Mode::Exclusive);
    let Reply::Queued { place, .. } = store.take(1, Mode::Exclusive) else { panic!() };
    store.take(2, Mode::Exclusive);
    store.record.queue.clear();
    assert!(matches!(store.take(2, Mode::Exclusive), Reply::Queued { ahead: 0, .. }));
    let again = Take { place: Some(place), ..Take::new(id(1), Mode::Exclusive, TTL_MS) };
    let (Reply::Queued { ahead, .. }, _) = store.step(&Action::Take(again)) else { panic!() };
    assert_eq!(ahead, 0, "it brings its place");
    assert_eq!(store.end(0), [1]);
}
