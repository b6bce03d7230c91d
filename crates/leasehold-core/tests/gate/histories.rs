//! The invariants after every step of any history. Random clients send requests that are copied and
//! come late, time passes, operators act, and clients die.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::model::{self, BATCH, Record, State, Times};
use leasehold_core::{
    Action, ClientId, Description, End, FencingToken, HolderId, HolderInfo, Keep, Message, Mode,
    Reply, Request, Take,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::state::span;
use super::store::{Store, TTL_MS};

const CLIENTS: u8 = 5;

/// One event. Attempts are named by how recently they began.
#[derive(Clone, Copy, Debug)]
enum Event {
    Adopt {
        from: usize,
        client: u8,
    },
    /// A late copy of a request arrives.
    Arrive {
        copy: usize,
    },
    Ask {
        attempt: usize,
    },
    Begin {
        client: u8,
        mode: Mode,
        waits: bool,
        is_copied: bool,
    },
    Bury {
        client: u8,
    },
    End {
        attempt: usize,
        cooldown_ms: u64,
    },
    Keep {
        attempt: usize,
        is_described: bool,
    },
    Pass {
        ms: u64,
    },
    Revoke {
        attempt: usize,
        force: bool,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let mode = prop_oneof![
        3 => Just(Mode::Exclusive),
        2 => Just(Mode::Shared),
        1 => (1_u32..=2, 2_u32..=3).prop_map(|(count, capacity)| Mode::Permits { count, capacity }),
    ];
    let passed_ms = prop_oneof![0_u64..50, 500_u64..2_500, 4_000_u64..40_000, 60_000_u64..70_000];
    prop_oneof![
        8 => (0..CLIENTS, mode, any::<bool>(), any::<bool>()).prop_map(
            |(client, mode, waits, is_copied)| Event::Begin { client, mode, waits, is_copied }
        ),
        8 => (0_usize..8).prop_map(|attempt| Event::Ask { attempt }),
        4 => (0_usize..8, any::<bool>())
            .prop_map(|(attempt, is_described)| Event::Keep { attempt, is_described }),
        8 => (0_usize..8, prop_oneof![3 => Just(0_u64), 1 => 1_u64..5_000])
            .prop_map(|(attempt, cooldown_ms)| Event::End { attempt, cooldown_ms }),
        4 => any::<usize>().prop_map(|copy| Event::Arrive { copy }),
        2 => (0_usize..8, 0..CLIENTS).prop_map(|(from, client)| Event::Adopt { from, client }),
        2 => (0_usize..8, any::<bool>())
            .prop_map(|(attempt, force)| Event::Revoke { attempt, force }),
        1 => (0..CLIENTS).prop_map(|client| Event::Bury { client }),
        6 => passed_ms.prop_map(|ms| Event::Pass { ms }),
    ]
}

struct Promise {
    until_ms: u64,
    token: u64,
}

struct History {
    store: Store,
    attempts: Vec<Take>,
    /// Copies that are under way.
    late: Vec<Take>,
    promises: BTreeMap<HolderId, Promise>,
    /// Attempts that have ended, and when.
    over: BTreeMap<HolderId, u64>,
    tokens: BTreeMap<u64, HolderId>,
    adopters: BTreeSet<HolderId>,
}

impl History {
    fn new() -> Self {
        Self {
            store: Store::new(),
            attempts: Vec::new(),
            late: Vec::new(),
            promises: BTreeMap::new(),
            over: BTreeMap::new(),
            tokens: BTreeMap::new(),
            adopters: BTreeSet::new(),
        }
    }

    /// An attempt that has not ended, the newest first.
    fn pick(&self, index: usize) -> Option<Take> {
        let mut live = self.attempts.iter().rev().filter(|it| !self.is_over(it.request.id));
        live.nth(index).cloned()
    }

    fn is_over(&self, id: HolderId) -> bool {
        self.over.contains_key(&id)
    }

    fn begin(&mut self, client: u8, mode: Mode) -> Take {
        let attempt = self.attempts.len() as u64 + 1;
        let id = HolderId { client: ClientId(client.into()), attempt };
        let request = Request::new(id, mode, HolderInfo::new("host", client.into()));
        Take::new(request, span(TTL_MS))
    }

    fn run(&mut self, event: Event) {
        let before = self.store.record.clone();
        match event {
            Event::Adopt { from, client } => {
                let Some(from) = self.pick(from) else { return };
                let take = self.begin(client, from.request.mode).with_from(Some(from.request.id));
                self.attempts.push(take.clone());
                self.adopters.insert(take.request.id);
                self.act(Action::Take(take));
            }
            Event::Arrive { copy } => {
                let Some(index) = copy.checked_rem(self.late.len()) else { return };
                let take = self.late.remove(index);
                self.act(Action::Take(take));
            }
            Event::Ask { attempt } => {
                let Some(take) = self.pick(attempt) else { return };
                self.act(Action::Take(take));
            }
            Event::Begin { client, mode, waits, is_copied } => {
                let take = self.begin(client, mode).with_waits(waits);
                self.attempts.push(take.clone());
                if is_copied {
                    self.late.push(take.clone());
                }
                self.act(Action::Take(take));
            }
            Event::Bury { client } => self.bury(ClientId(client.into())),
            Event::End { attempt, cooldown_ms } => {
                let Some(take) = self.pick(attempt) else { return };
                self.end(&take, cooldown_ms);
            }
            Event::Keep { attempt, is_described } => {
                let Some(take) = self.pick(attempt) else { return };
                let (id, info) = (take.request.id, (*take.request.info).clone());
                let token = self.promises.get(&id).map(|promise| promise.token);
                let token = token.filter(|_| is_described).map(FencingToken::from_micros);
                let description = token.map(|token| Box::new(Description::new(token, info)));
                let keep = Keep::new(take.request, take.ttl).with_description(description);
                self.act(Action::Keep(keep));
            }
            Event::Pass { ms } => self.pass(ms),
            Event::Revoke { attempt, force } => {
                let Some(take) = self.pick(attempt) else { return };
                let id = take.request.id;
                if force {
                    self.promises.remove(&id);
                }
                self.act(Action::Revoke { id, force });
            }
        }
        self.check(&before);
    }

    fn pass(&mut self, ms: u64) {
        self.store.after(ms);
        let (now_ms, over) = (self.store.now_ms, &self.over);
        // A copy that comes later than this may take the name for nobody: for one ttl.
        let is_forgotten = |id| {
            let ended = over.get(&id);
            ended.is_some_and(|ended| ended + Times::USUAL.closed_ms < now_ms)
        };
        self.late.retain(|take| !is_forgotten(take.request.id));
    }

    fn bury(&mut self, client: ClientId) {
        self.late.retain(|take| take.request.id.client != client);
        self.promises.retain(|id, _| id.client != client);
        let now_ms = self.store.now_ms;
        for take in self.attempts.iter().filter(|take| take.request.id.client == client) {
            self.over.entry(take.request.id).or_insert(now_ms);
        }
        let now = self.store.now();
        let Store { record, counter, rules, .. } = &mut self.store;
        let outcome = model::reap(record, counter, now, *rules, client);
        self.promise_all(grants(outcome.messages));
    }

    /// A client that ends an attempt stops relying on its lease before it asks.
    fn end(&mut self, take: &Take, cooldown_ms: u64) {
        let id = take.request.id;
        self.promises.remove(&id);
        self.over.insert(id, self.store.now_ms);
        let is_copied = self.late.iter().any(|late| late.request.id == id);
        let end = End::new(take.request.clone()).with_closes(is_copied);
        self.act(Action::End(end.with_cooldown(span(cooldown_ms))));
    }

    fn act(&mut self, action: Action) -> Reply {
        let (now, now_ms) = (self.store.now(), self.store.now_ms);
        let Store { record, counter, rules, .. } = &mut self.store;
        let outcome = model::step(record, counter, now, *rules, &action);
        if record.queue.len() < BATCH {
            let (mut again, mut drawn) = (record.clone(), *counter);
            model::step(&mut again, &mut drawn, now, *rules, &action);
            assert_eq!(again, *record, "a copy of {action:?} changes nothing more");
        }
        let mut grants = grants(outcome.messages);
        match (&action, &outcome.reply) {
            (Action::Take(take), Reply::Granted(grant)) => {
                grants.push((grant.token.micros(), take.request.id, now_ms + TTL_MS));
                if let Some(from) = take.from {
                    self.promises.remove(&from);
                    self.over.entry(from).or_insert(now_ms);
                }
            }
            (Action::Keep(keep), Reply::Kept { .. }) => {
                let promise = self.promises.get_mut(&keep.request.id);
                let Some(promise) = promise else { panic!("{keep:?} does not hold") };
                assert!(promise.until_ms >= now_ms, "a hold that has ended was kept");
                promise.until_ms = promise.until_ms.max(now_ms + TTL_MS);
            }
            _ => {}
        }
        self.promise_all(grants);
        outcome.reply
    }

    fn promise_all(&mut self, mut grants: Vec<(u64, HolderId, u64)>) {
        grants.sort_unstable();
        grants.into_iter().for_each(|(token, id, until_ms)| self.promise(id, until_ms, token));
    }

    /// Writes a promise down. The token of a new holder is above all others, and that of a present
    /// one is the same again.
    fn promise(&mut self, id: HolderId, until_ms: u64, token: u64) {
        match self.promises.get_mut(&id) {
            Some(promise) if promise.until_ms >= self.store.now_ms => {
                assert_eq!(promise.token, token, "one lease has one token");
                promise.until_ms = promise.until_ms.max(until_ms);
            }
            Some(_) | None => {
                let newest = self.tokens.last_key_value();
                let is_above = newest.is_none_or(|(newest, of)| *newest < token || *of == id);
                assert!(is_above, "{id}: {token} is not above {newest:?}");
                self.tokens.insert(token, id);
                self.promises.insert(id, Promise { until_ms, token });
            }
        }
    }

    fn check(&self, before: &Record) {
        let (record, now_ms) = (&self.store.record, self.store.now_ms);
        assert_eq!(Record::from_text(&record.to_text()).as_ref(), Ok(record), "as a row");
        let mut live = record.clone();
        live.expire(self.store.now());
        let holders = holders(&live, now_ms);
        for (id, promise) in &self.promises {
            let held = holders.get(id).copied();
            let is_kept = held.is_some_and(|token| token.is_none_or(|it| it == promise.token));
            assert!(promise.until_ms < now_ms || is_kept, "{id} was promised that it holds");
        }
        for (id, ended_ms) in &self.over {
            let is_known = holders.contains_key(id) || waits(&live, *id);
            assert!(!is_known || ended_ms + Times::USUAL.closed_ms < now_ms, "{id} has ended");
        }
        let capacity = live.shares.values().next().map(|share| share.request.mode.capacity());
        assert!(capacity.is_none_or(|capacity| live.used() <= capacity), "too much was granted");
        let mut modes = live.shares.values().map(|share| share.request.mode);
        assert!(modes.all(|mode| Some(mode.capacity()) == capacity), "capacities were mixed");
        self.check_order(before, &live);
    }

    /// Checks that waiters are served in order, and that nobody was granted the name before them.
    fn check_order(&self, before: &Record, after: &Record) {
        let now_ms = self.store.now_ms;
        let (held, holds) = (holders(before, 0), holders(after, now_ms));
        let first = after.queue.keys().next();
        for id in holds.keys().filter(|id| !held.contains_key(id) && !self.adopters.contains(id)) {
            let place = before.queue.iter().find(|(_, waiter)| waiter.request.id == *id);
            let is_next = match (place, first) {
                (_, None) => true,
                (Some((place, _)), Some(first)) => place < first,
                (None, Some(_)) => false,
            };
            assert!(is_next, "{id} was granted the name before another");
        }
        for waiter in before.queue.values() {
            let id = waiter.request.id;
            let is_over = self.is_over(id) || holds.contains_key(&id) || waits(after, id);
            let Times { ask_ms, window_ms, queue_ms, .. } = Times::USUAL;
            let silent_ms = (ask_ms + window_ms).min(queue_ms);
            assert!(is_over || waiter.asked_ms + silent_ms < now_ms, "{id} was skipped");
        }
    }

    /// From now on, clients with an even number live and end at once; the others are dead. All
    /// those that wait are served, and then nothing is left.
    fn heal(&mut self) {
        let lives = |take: &&Take| take.request.id.client.0.is_multiple_of(2);
        for _ in 0..200 {
            let live = self.attempts.iter().filter(lives).cloned();
            let live: Vec<Take> = live.filter(|take| !self.is_over(take.request.id)).collect();
            for take in live {
                if !matches!(self.act(Action::Take(take.clone())), Reply::Queued(_)) {
                    self.end(&take, 0);
                }
            }
            self.pass(Times::USUAL.ask_ms);
        }
        let lives = |id: HolderId| id.client.0.is_multiple_of(2);
        let waiting = self.store.record.queue.values().map(|waiter| waiter.request.id);
        assert_eq!(waiting.filter(|id| lives(*id)).collect::<Vec<_>>(), [], "never granted");
        self.pass(TTL_MS + Times::USUAL.queue_ms + Times::USUAL.closed_ms);
        self.store.record.expire(self.store.now());
        assert!(self.store.record.is_empty(), "{:?}", self.store.record);
    }
}

/// The grants of the messages of one step: a token, its attempt, the end of the claim window.
fn grants(messages: Vec<(ClientId, Message)>) -> Vec<(u64, HolderId, u64)> {
    let grants = messages.into_iter().filter_map(|(client, message)| match message {
        Message::Granted { attempt, token, now_us } => {
            let until_ms = now_us / 1_000 + Times::USUAL.window_ms;
            Some((token.micros(), HolderId { client, attempt }, until_ms))
        }
        Message::Gap | Message::Revoked { .. } => None,
        _ => panic!("{message:?}"),
    });
    grants.collect()
}

/// Those that hold, with their tokens as far as the record says them.
fn holders(record: &Record, now_ms: u64) -> BTreeMap<HolderId, Option<u64>> {
    let shares = record.shares.iter().filter(|(_, share)| share.deadline_ms >= now_ms);
    let mut holders: BTreeMap<_, _> = shares.map(|(id, it)| (*id, Some(it.token))).collect();
    if let Some(gate) = &record.gate
        && let State::Awaited(hold) | State::Held(hold) | State::Revoked(hold) = &gate.state
    {
        holders.insert(hold.id, hold.token);
    }
    holders
}

fn waits(record: &Record, id: HolderId) -> bool {
    record.queue.values().any(|waiter| waiter.request.id == id)
}

proptest! {
    #[test]
    fn every_history_keeps_the_promises_and_ends_well(events in vec(event(), 1..80)) {
        let mut history = History::new();
        for event in events {
            history.run(event);
        }
        history.heal();
    }
}
