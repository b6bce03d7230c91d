//! What a step costs does not depend on how many hold or wait, counted in rows that it asks for.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::*;

const FEW: u64 = 10;
const MANY: u64 = 10_000;

thread_local! {
    static ASKED: Cell<u32> = const { Cell::new(0) };
}

fn count() {
    ASKED.set(ASKED.get() + 1);
}

/// A table that counts what it is asked for.
#[derive(Default)]
struct Counting<T>(T);

impl<K: Ord + Copy, V> Table<K, V> for Counting<BTreeMap<K, V>> {
    fn count(&self) -> u32 {
        self.0.count()
    }

    fn find(&mut self, key: K) -> Option<&mut V> {
        count();
        self.0.find(key)
    }

    fn put(&mut self, key: K, row: V) {
        count();
        self.0.put(key, row);
    }

    fn take(&mut self, key: K) -> Option<V> {
        count();
        self.0.take(key)
    }

    fn next(&mut self, from: K) -> Option<K> {
        count();
        self.0.next(from)
    }

    fn previous(&mut self, below: K) -> Option<K> {
        count();
        self.0.previous(below)
    }
}

impl Holds for Counting<Vec<Hold>> {
    fn count(&self) -> u32 {
        self.0.count()
    }

    fn at(&mut self, slot: u32) -> &mut Hold {
        count();
        self.0.at(slot)
    }

    fn push(&mut self, hold: Hold) {
        count();
        self.0.push(hold);
    }

    fn pop(&mut self) -> Option<Hold> {
        count();
        self.0.pop()
    }
}

struct Counted;

impl Tables for Counted {
    type Holds = Counting<Vec<Hold>>;
    type Slots = Counting<BTreeMap<HolderId, u32>>;
    type Queue = Counting<BTreeMap<u64, Waiting>>;
    type Sequences = Counting<BTreeMap<HolderId, u64>>;
    type Clients = Counting<BTreeMap<ClientId, Seen>>;
}

/// A record of which each step is counted.
struct Crowd(Record<Counted>);

impl Crowd {
    fn new() -> Self {
        let Record { capacity, asked, used, last_token_us, sweep, upgrading, .. } =
            Record::default();
        Self(Record {
            capacity,
            asked,
            used,
            last_token_us,
            holds: Counting::default(),
            slots: Counting::default(),
            sweep,
            upgrading,
            queue: Counting::default(),
            sequences: Counting::default(),
            last_sequence: 0,
            clients: Counting::default(),
            tombstones: Vec::new(),
            last: None,
            collect_at_us: 0,
        })
    }

    /// How many rows an action asks for.
    fn cost(&mut self, action: &Action) -> u32 {
        ASKED.set(0);
        let now = Bench::new().now();
        step(&mut self.0, now, DEFAULT_RETENTION, action);
        ASKED.get()
    }
}

/// Makes a crowd of `count` attempts that acquire, and counts what each of some actions costs then.
fn costs(count: u64, mode: Mode, actions: &[Action]) -> Vec<u32> {
    let (bench, mut crowd) = (Bench::new(), Crowd::new());
    for attempt in 1..=count {
        crowd.cost(&Action::Acquire(bench.request(id(1, attempt), mode)));
    }
    actions.iter().map(|action| crowd.cost(action)).collect()
}

fn assert_same_cost(mode: Mode) {
    let bench = Bench::new();
    let release = |attempt| {
        let (id, cooldown) = (id(1, attempt), Duration::ZERO);
        Action::Release { id, cooldown, unanswered: false }
    };
    let renew = |attempt| Action::Renew { id: id(1, attempt), ttl: TTL, mode, change: 0 };
    let actions = [
        renew(1),
        renew(9),
        Action::Poll { id: id(1, 10), ttl: TTL },
        Action::Poll { id: id(1, 2), ttl: TTL },
        Action::Acquire(bench.request(id(2, 1), mode)),
        Action::Cancel { id: id(1, 5), unanswered: false },
        release(1),
        release(2),
        Action::Inspect { limit: 3 },
    ];
    let (few, many) = (costs(FEW, mode, &actions), costs(MANY, mode, &actions));
    assert_eq!(few, many);
    assert!(many.iter().all(|rows| *rows < 40), "{many:?}");
}

#[test]
fn an_inspection_of_nobody_asks_for_no_row() {
    assert_eq!(costs(FEW, Mode::Exclusive, &[Action::Inspect { limit: 0 }]), [0]);
}

#[test]
fn a_step_asks_for_as_many_rows_with_ten_thousand_waiters_as_with_ten() {
    assert_same_cost(Mode::Exclusive);
}

#[test]
fn a_step_asks_for_as_many_rows_with_ten_thousand_permits_held_as_with_ten() {
    assert_same_cost(permits(1, 20_000));
}
