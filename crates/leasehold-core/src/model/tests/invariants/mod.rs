//! The invariants after every step of any history. Random clients send requests that are copied and
//! come late, time passes and now and then goes back, operators act, and clients die.

mod checks;

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use self::checks::hands_on;
use super::events::{Ballot, Event, event};
use super::records::check_record;
use super::*;

/// What a holder was promised: its hold lasts until `until_us`, by a clock that never goes back.
struct Promise {
    until_us: u64,
    token: FencingToken,
}

struct History {
    bench: Bench,
    /// The time that has passed, whatever the store's clock was set to.
    elapsed_us: u64,
    /// The span by which the store's clock was set back.
    back: Duration,
    attempts: Vec<Acquire>,
    /// Copies of acquires, adoptions and reclaims that are still on their way, with their attempts.
    late: Vec<(HolderId, Action)>,
    promises: BTreeMap<HolderId, Promise>,
    /// Attempts that their clients have ended.
    over: BTreeSet<HolderId>,
    /// Attempts that asked to adopt the lease of another attempt.
    adopters: BTreeSet<HolderId>,
    /// Attempts by their token.
    tokens: BTreeMap<u64, HolderId>,
}

impl History {
    fn new() -> Self {
        Self {
            bench: Bench::new(),
            elapsed_us: 0,
            back: Duration::ZERO,
            attempts: Vec::new(),
            late: Vec::new(),
            promises: BTreeMap::new(),
            over: BTreeSet::new(),
            adopters: BTreeSet::new(),
            tokens: BTreeMap::new(),
        }
    }

    fn pick(&self, index: usize) -> Option<Acquire> {
        let newest_first = index.checked_rem(self.attempts.len())?;
        self.attempts.iter().rev().nth(newest_first).cloned()
    }

    /// An attempt that holds or has held. Waiters are left out: a waiter only polls and cancels.
    fn pick_holder(&self, index: usize) -> Option<HolderId> {
        let id = self.pick(index)?.id;
        (!self.bench.record.sequences.contains_key(&id)).then_some(id)
    }

    fn is_unanswered(&self, id: HolderId) -> bool {
        self.late.iter().any(|(of, _)| *of == id)
    }

    fn run(&mut self, event: &Event) {
        let before = self.bench.record.clone();
        match *event {
            Event::Back { ms } => {
                self.bench.now_us = self.bench.now_us.saturating_sub(ms * 1000).max(1);
                self.back += Duration::from_millis(ms);
                if self.back > TOMBSTONE_LIFE - NOT_AFTER {
                    // If the clock is set back this far, the tombstone of an ended attempt may be
                    // forgotten before its copies are too late. Then such a copy may be executed.
                    // Its lease would be granted to nobody and end with its ttl. That is the only
                    // harm.
                    self.late.clear();
                }
                return;
            }
            Event::Bury { client } => self.end_client(client),
            Event::Pass { ms } => {
                self.bench.pass(Duration::from_millis(ms));
                self.elapsed_us += ms * 1000;
                return;
            }
            _ => {
                let Some(action) = self.action(event) else { return };
                self.act(&before, &action);
            }
        }
        for (client, message) in self.bench.messages.clone() {
            self.hear(client, message);
        }
        self.check_order(&before);
        self.check_last(&before);
        self.check_capacity();
        self.check_promises();
        check_record(&self.bench.record, self.bench.now_us);
    }

    fn action(&mut self, event: &Event) -> Option<Action> {
        let span = Duration::from_millis;
        Some(match *event {
            Event::Acquire { client, mode, ttl_ms, wait, late_copies, ballot } => {
                let id = id(u128::from(client), self.attempts.len() as u64 + 1);
                let request = self.bench.request(id, mode);
                let token_us = self.bench.now().token_us;
                let ballot_us = ballot.map(|away_us| token_us.saturating_add_signed(away_us));
                let request = Acquire { ttl: span(ttl_ms), wait, ballot_us, ..request };
                self.attempts.push(request.clone());
                self.copy(id, Action::Acquire(request), late_copies)
            }
            Event::Adopt { hold, client, late_copies, ballot } => {
                let request = self.adoption(hold, client, ballot)?;
                self.copy(request.request.id, Action::Adopt(request), late_copies)
            }
            Event::Arrive { copy } => {
                let index = copy.checked_rem(self.late.len())?;
                self.late.remove(index).1
            }
            Event::Cancel { attempt } => {
                let id = self.pick(attempt)?.id;
                Action::Cancel { id, unanswered: self.is_unanswered(id) }
            }
            Event::Commit { attempt, ahead_us } => {
                let id = self.pick_holder(attempt)?;
                let token = FencingToken::from_micros(self.bench.record.last_token_us + ahead_us);
                Action::Commit { id, token, ttl: TTL }
            }
            Event::Describe { attempt, pid } => {
                let id = self.pick_holder(attempt)?;
                Action::Describe { id, info: HolderInfo { pid, ..HolderInfo::default() } }
            }
            Event::Inspect => Action::Inspect { limit: 3 },
            Event::Poll { attempt } => {
                let attempt = self.pick(attempt)?;
                Action::Poll { id: attempt.id, ttl: attempt.ttl }
            }
            Event::Reclaim { attempt, late_copies } => {
                let request = self.reclaim(attempt)?;
                self.copy(request.request.id, Action::Reclaim(request), late_copies)
            }
            Event::Release { attempt, cooldown_ms } => {
                let id = self.pick_holder(attempt)?;
                let unanswered = self.is_unanswered(id);
                Action::Release { id, cooldown: span(cooldown_ms), unanswered }
            }
            Event::Renew { attempt, ttl_ms } => {
                let id = self.pick_holder(attempt)?;
                Action::Renew { id, ttl: span(ttl_ms) }
            }
            Event::Revoke { hold, force } => {
                let holds = &self.bench.record.holds;
                let hold = &holds[hold.checked_rem(holds.len())?];
                let token = FencingToken::from_micros(hold.token_us);
                Action::Revoke { id: hold.id, token, force }
            }
            Event::Back { .. } | Event::Bury { .. } | Event::Pass { .. } => return None,
        })
    }

    /// The reclaim of a holder that still relies on its hold.
    fn reclaim(&self, attempt: usize) -> Option<Reclaim> {
        let attempt = self.pick(attempt)?;
        let promise = self.promises.get(&attempt.id)?;
        let not_after_us = self.bench.now_us + micros(NOT_AFTER);
        let claim = Reclaim::new(promise.token, Acquire { not_after_us, ..attempt });
        (promise.until_us > self.elapsed_us).then_some(claim)
    }

    /// Hands a hold out. Another client or the same one asks to adopt it.
    fn adoption(&mut self, hold: usize, client: u8, ballot: Ballot) -> Option<Adopt> {
        let holds = &self.bench.record.holds;
        let from = holds[hold.checked_rem(holds.len())?].id;
        let id = id(u128::from(client), self.attempts.len() as u64 + 1);
        let token_us = self.bench.now().token_us;
        let ballot_us = ballot.map(|away_us| token_us.saturating_add_signed(away_us));
        let mut adopt = self.bench.adoption(id, from);
        adopt.request.ballot_us = ballot_us;
        self.attempts.push(self.bench.request(id, adopt.request.mode));
        self.adopters.insert(id);
        Some(adopt)
    }

    /// Sends `copies` more copies of an action, which may come late.
    fn copy(&mut self, id: HolderId, action: Action, copies: u8) -> Action {
        self.late.extend((0..copies).map(|_| (id, action.clone())));
        action
    }

    fn end_client(&mut self, client: u8) {
        let is_dead = |id: HolderId| id.client == ClientId(u128::from(client));
        self.late.retain(|(id, _)| !is_dead(*id));
        self.promises.retain(|id, _| !is_dead(*id));
        self.over.extend(self.attempts.iter().map(|attempt| attempt.id).filter(|id| is_dead(*id)));
        self.bench.reap(u128::from(client));
        self.check_handed_on();
    }

    /// A client that releases stops relying on the hold before it asks.
    fn rely_no_more(&mut self, action: &Action) {
        match *action {
            Action::Cancel { id, .. } | Action::Release { id, .. } => {
                self.promises.remove(&id);
                self.over.insert(id);
            }
            Action::Adopt(Adopt { from: id, .. }) | Action::Revoke { id, force: true, .. } => {
                self.promises.remove(&id);
            }
            Action::Acquire(_)
            | Action::Commit { .. }
            | Action::Describe { .. }
            | Action::Inspect { .. }
            | Action::Poll { .. }
            | Action::Reclaim(_)
            | Action::Renew { .. }
            | Action::Revoke { .. } => {}
        }
    }

    fn act(&mut self, before: &Record, action: &Action) -> Reply {
        self.rely_no_more(action);
        let reply = self.bench.act(action);
        let left_us = |grant: &Grant| grant.deadline_us - self.bench.now_us;
        match (action, &reply) {
            (
                Action::Acquire(Acquire { id, ttl, .. })
                | Action::Reclaim(Reclaim { request: Acquire { id, ttl, .. }, .. })
                | Action::Commit { id, ttl, .. }
                | Action::Poll { id, ttl }
                | Action::Renew { id, ttl, .. },
                Reply::Granted(grant),
            ) => {
                let until_us = self.elapsed_us + left_us(grant).min(micros(*ttl));
                self.promise(*id, until_us, grant.token);
            }
            (Action::Adopt(Adopt { from, request, .. }), Reply::Granted(grant)) => {
                self.over.insert(*from);
                let until_us = self.elapsed_us + left_us(grant).min(micros(request.ttl));
                self.promise(request.id, until_us, grant.token);
            }
            (Action::Describe { id, .. }, Reply::Granted(grant)) => {
                self.promise(*id, self.elapsed_us, grant.token);
            }
            (Action::Inspect { .. }, _) | (_, Reply::Late) => {
                assert_eq!(&self.bench.record, before, "{reply:?} changes nothing");
            }
            (
                Action::Acquire(Acquire { id, .. }),
                Reply::Busy { .. } | Reply::Refused(Refusal::Mismatch { .. }),
            )
            | (Action::Commit { id, .. }, Reply::Refused(_)) => {
                self.check_only_time_has_acted(before, *id);
            }
            _ => {}
        }
        if hands_on(before, action, &reply) {
            self.check_handed_on();
        }
        if !self.bench.more {
            self.check_idempotent(action, &reply);
        }
        reply
    }

    fn hear(&mut self, client: ClientId, message: Message) {
        if let Message::Granted { attempt, token, deadline_us, .. } = message {
            let id = HolderId { client, attempt };
            let left_us = deadline_us.saturating_sub(self.bench.now_us);
            self.promise(id, self.elapsed_us + left_us, token);
        }
    }

    /// Records a promise. Its end is never earlier than that of the promise before: a reply takes
    /// back nothing that an earlier reply has promised.
    fn promise(&mut self, id: HolderId, until_us: u64, token: FencingToken) {
        let kept = self.promises.get(&id).map_or(0, |promise| promise.until_us);
        self.promises.insert(id, Promise { until_us: until_us.max(kept), token });
    }

    /// From now on, clients with an even number live and release immediately; the others are dead.
    fn heal(&mut self) {
        let lives = |id: HolderId| id.client.0.is_multiple_of(2);
        let is_waiting = |bench: &Bench| bench.record.queue.values().any(|w| lives(w.id));
        let most_ms = 40_000 + 100_000 + 2_000 * self.bench.record.queue.len() as u64;
        for _ in 0..most_ms / 1000 {
            let live: Vec<_> = self.attempts.iter().map(|a| a.id).filter(|id| lives(*id)).collect();
            for id in live {
                while let Reply::Queued(_) = self.bench.poll(id)
                    && self.bench.more
                {}
                self.bench.act(&Action::Release { id, cooldown: Duration::ZERO, unanswered: true });
            }
            if !is_waiting(&self.bench) {
                return;
            }
            self.bench.pass(POLL_INTERVAL);
        }
        panic!("a live waiter was never granted: {:#?}", self.bench.record);
    }
}

proptest! {
    #[test]
    fn every_history_keeps_the_promises_and_ends_well(events in vec(event(), 1..80)) {
        let mut history = History::new();
        for event in &events {
            history.run(event);
        }
        history.heal();
    }
}
