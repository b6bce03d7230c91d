//! A history: what clients ask for one name, and how much time passes between.

use std::time::Duration;

use leasehold_core::model::{self, Outcome, Record, Rules, State, Times};
use leasehold_core::{
    Action, ClientId, Description, End, FencingToken, HolderId, HolderInfo, Keep, Mode, Now,
    PassedOn, Place, Reply, Request, Status, Take,
};
use proptest::prelude::*;

use super::keys::Keys;
use super::server::Server;

/// By how much times of the two clocks may differ (ms).
const TOLERANCE_MS: u64 = 300;

const TTL: Duration = Duration::from_secs(10);

/// The ttl of one client: longer than ended attempts are remembered.
const LONG_TTL: Duration = Duration::from_secs(150);

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    End {
        knows: bool,
        closes: bool,
        cooldown_ms: u64,
        done_ms: u64,
    },
    Keep {
        knows: bool,
        /// How often the lease was passed on, and how far ahead the token is (µs).
        describes: Option<(u16, u64)>,
    },
    Look(u32),
    Revoke {
        force: bool,
    },
    Set,
    Take {
        waits: bool,
        brings_place: bool,
        ballot: Option<i64>,
        claims: bool,
        once_per_ms: Option<u64>,
    },
    /// Takes over the lease of another client.
    TakeOver {
        from: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// One client acts, in the first or the second of its attempts.
    Act { client: u8, attempt: u64, verb: Verb },
    /// The queue is lost.
    Lose,
    /// Time passes, or the clock is set back.
    Pass(i64),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ballot = prop_oneof![-2i64..3, -20_000_000i64..20_000_000];
    let ahead = prop_oneof![4 => Just(0u64), 1 => Just(1), 1 => 0u64..20_000_000];
    let verb = prop_oneof![
        7 => (any::<bool>(), any::<bool>(), prop_oneof![4 => Just(0u64), 1 => Just(7_000)],
              prop_oneof![4 => Just(0u64), 1 => Just(20_000)])
            .prop_map(|(knows, closes, cooldown_ms, done_ms)| {
                Verb::End { knows, closes, cooldown_ms, done_ms }
            }),
        4 => (any::<bool>(), prop::option::weighted(0.6, (0u16..3, ahead)))
            .prop_map(|(knows, describes)| Verb::Keep { knows, describes }),
        1 => (0u32..2).prop_map(|limit| Verb::Look(100 * limit)),
        1 => any::<bool>().prop_map(|force| Verb::Revoke { force }),
        2 => Just(Verb::Set),
        9 => (prop::bool::weighted(0.8), any::<bool>(), prop::option::weighted(0.1, ballot),
              prop::bool::weighted(0.03), prop::option::weighted(0.3, Just(9_000)))
            .prop_map(|(waits, brings_place, ballot, claims, once_per_ms)| {
                Verb::Take { waits, brings_place, ballot, claims, once_per_ms }
            }),
        1 => (0u8..5).prop_map(|from| Verb::TakeOver { from }),
    ];
    let step = prop_oneof![
        12 => (0u8..5, 1u64..3, verb)
            .prop_map(|(client, attempt, verb)| Step::Act { client, attempt, verb }),
        1 => Just(Step::Lose),
        3 => prop::sample::select(vec![1_100i64, 2_300, 3_700, 5_300, 11_000, 65_300, -40_000])
            .prop_map(Step::Pass),
    ];
    (prop::collection::vec(step, 1..60), 0i64..4).prop_map(|(mut steps, kind)| {
        // All clients of a history want the same kind of lock, but for a few.
        steps.insert(0, Step::Pass(kind));
        steps
    })
}

#[derive(Default)]
pub(super) struct History {
    record: Record,
    counter: u64,
    /// What each attempt knows.
    places: Vec<(HolderId, u64)>,
    tokens: Vec<(HolderId, FencingToken)>,
    kind: i64,
}

fn id(client: u8, attempt: u64) -> HolderId {
    HolderId { client: ClientId(u128::from(client)), attempt }
}

fn now(now_us: u64) -> Now {
    Now { lease_us: now_us, token_us: now_us }
}

fn last_of<T: Copy>(known: &[(HolderId, T)], id: HolderId) -> Option<T> {
    known.iter().rev().find(|(other, _)| *other == id).map(|(_, number)| *number)
}

impl History {
    /// Locks, readers beside writers, permits, or all of them.
    fn mode(&self, client: u8) -> Mode {
        let permits = |count, capacity| Mode::Permits { count, capacity };
        match (self.kind, client) {
            (1, 1..=3) => Mode::Shared,
            (2, 0..=2) => permits(1, 2),
            (2, _) => permits(2, 3),
            (3, 0) => Mode::Shared,
            (3, 1) => permits(1, 2),
            _ => Mode::Exclusive,
        }
    }

    pub(super) fn compare(&mut self, server: &mut Server, step: &Step) -> Result<(), String> {
        match *step {
            Step::Pass(kind @ 0..=3) => self.kind = kind,
            Step::Pass(span_ms) => server.pass(span_ms),
            Step::Lose => {
                server.lose_queue();
                self.record.queue.clear();
                self.record.queue_until_ms = 0;
            }
            Step::Act { client, attempt, verb } => {
                self.act(server, id(client, attempt), self.mode(client), verb)?;
            }
        }
        while self.is_ambiguous(server.now_us() / 1_000) {
            server.pass(3 * TOLERANCE_MS as i64);
        }
        let now_ms = server.now_us() / 1_000;
        self.record.expire(now(now_ms * 1_000));
        self.compare_keys(server, now_ms)
    }

    /// Whether something ends so near to now that the two clocks may disagree.
    fn is_ambiguous(&self, now_ms: u64) -> bool {
        let Times { grace_ms, ask_ms, window_ms, .. } = Times::USUAL;
        let record = &self.record;
        let gate = record.gate.iter().flat_map(|gate| {
            let free_ms = match gate.state {
                State::Cooling { until_ms, .. } => until_ms,
                _ => gate.until_ms,
            };
            [gate.until_ms, gate.until_ms.saturating_sub(grace_ms), free_ms]
        });
        let far_ms = ask_ms + window_ms;
        let asked = record.queue.values().map(|waiter| waiter.asked_ms);
        let asked = asked.flat_map(|asked_ms| [asked_ms - far_ms, asked_ms + far_ms]);
        let shares = record.shares.values().map(|share| share.deadline_ms);
        let last_ms = record.last.as_ref().map_or(0, |last| last.until_ms);
        let lists = [record.queue_until_ms, record.closed_until_ms, last_ms];
        let mut times = gate.chain(asked).chain(shares).chain(lists);
        times.any(|at_ms| at_ms.abs_diff(now_ms) < TOLERANCE_MS)
    }

    fn compare_keys(&self, server: &mut Server, now_ms: u64) -> Result<(), String> {
        let (ours, theirs) = (Keys::of(&self.record), server.keys());
        if ours != theirs {
            return Err(format!("the model has {ours:?}\nthe server has {theirs:?}"));
        }
        let (queue_ms, closed_ms) = (self.record.queue_until_ms, self.record.closed_until_ms);
        let lives = [
            ("", self.record.gate.as_ref().map(|gate| gate.until_ms)),
            (":q", (!self.record.queue.is_empty()).then_some(queue_ms)),
            (":x", (!self.record.closed.is_empty()).then_some(closed_ms)),
            (":d", self.record.last.as_ref().map(|last| last.until_ms)),
        ];
        for (suffix, until_ms) in lives {
            let (ours, theirs) =
                (until_ms.map(|until_ms| until_ms - now_ms), server.life_ms(suffix));
            let is_near = match (ours, theirs) {
                (Some(ours), Some(theirs)) => ours.abs_diff(theirs) < TOLERANCE_MS,
                (ours, theirs) => ours == theirs,
            };
            if !is_near {
                return Err(format!("GATE{suffix} lives for {ours:?} ms, not for {theirs:?}"));
            }
        }
        if let Some(last_ms) = self.record.shares.values().map(|share| share.deadline_ms).max() {
            let left_ms = last_ms.saturating_sub(now_ms);
            for suffix in [":h", ":w"] {
                let life_ms = server.life_ms(suffix);
                if life_ms.is_none_or(|life_ms| life_ms < left_ms) {
                    return Err(format!("GATE{suffix} lives for {life_ms:?} ms, not {left_ms}"));
                }
            }
        }
        let (ours, theirs) = (self.counter, server.counter());
        (ours == theirs).then_some(()).ok_or(format!("the counter is {theirs}, not {ours}"))
    }

    fn act(
        &mut self,
        server: &mut Server,
        id: HolderId,
        mode: Mode,
        verb: Verb,
    ) -> Result<(), String> {
        let now_us = server.now_us();
        let now = now(now_us);
        let Some(action) = self.action(id, mode, verb, now_us) else {
            return if mode == Mode::Exclusive { self.set(server, id, now) } else { Ok(()) };
        };
        let outcome = match self.delete(&action, now) {
            true => Outcome { reply: Reply::Ended(true), messages: Vec::new() },
            false => model::step(&mut self.record, &mut self.counter, now, Rules::USUAL, &action),
        };
        let theirs = server.apply(&action);
        self.learn(id, &outcome);
        is_same(&outcome.reply, &theirs).then_some(()).ok_or_else(|| {
            format!("the model replied {:?}, the script {theirs:?}", outcome.reply)
        })?;
        let heard = server.heard();
        match outcome.messages == heard {
            true => Ok(()),
            false => Err(format!("the inboxes heard {heard:?}, not {:?}", outcome.messages)),
        }
    }

    fn action(&self, id: HolderId, mode: Mode, verb: Verb, now_us: u64) -> Option<Action> {
        let request = Request::new(id, mode, info(id));
        let token = last_of(&self.tokens, id);
        let known = |knows: bool| {
            let token = token.filter(|_| knows)?;
            Some(Box::new(Description::new(token, info(id))))
        };
        let ttl = if id.client == ClientId(1) { LONG_TTL } else { TTL };
        let take = Take::new(request.clone(), ttl);
        Some(match verb {
            Verb::Set => return None,
            Verb::End { knows, closes, cooldown_ms, done_ms } => {
                let span = Duration::from_millis;
                let end = End::new(request).with_known(known(knows)).with_closes(closes);
                Action::End(end.with_cooldown(span(cooldown_ms)).with_done(span(done_ms)))
            }
            Verb::Keep { knows, describes } => {
                let description = describes.zip(token).map(|((times, ahead_us), token)| {
                    let after = Duration::from_micros(u64::from(times) * 7);
                    let token = FencingToken::from_micros(token.micros() + ahead_us);
                    let told = info(id).with_passed_on(PassedOn { times, after });
                    Box::new(Description::new(token, told))
                });
                let keep = Keep::new(request, ttl).with_known(known(knows));
                Action::Keep(keep.with_description(description))
            }
            Verb::Look(limit) => Action::Look { limit },
            Verb::Revoke { force } => Action::Revoke { id, force },
            Verb::Take { waits, brings_place, ballot, claims, once_per_ms } => {
                let highest = self.counter.max(now_us);
                let ballot = ballot.filter(|_| self.kind == 0);
                let ballot = ballot.map(|above| highest.saturating_add_signed(above));
                let waits = waits && ballot.is_none();
                let place = last_of(&self.places, id).filter(|_| brings_place && waits);
                let take = take.with_waits(waits).with_place(place).with_ballot(ballot);
                let take = take.with_once_per(once_per_ms.map(Duration::from_millis));
                Action::Take(take.with_claim(token.filter(|_| claims)))
            }
            Verb::TakeOver { from } => {
                let from = HolderId { client: ClientId(u128::from(from)), attempt: 1 };
                Action::Take(take.with_from(Some(from)))
            }
        })
    }

    /// Whether an end is done by comparing the value of the gate alone.
    fn delete(&mut self, action: &Action, now: Now) -> bool {
        let Action::End(end) = action else { return false };
        let is_quick = !end.closes && end.cooldown.is_zero() && end.done.is_zero();
        is_quick && super::quick::delete(&mut self.record, now, end)
    }

    /// Sets the name by one command.
    fn set(&mut self, server: &mut Server, id: HolderId, now: Now) -> Result<(), String> {
        let ttl_ms = TTL.as_millis() as u64;
        let ours = super::quick::set(&mut self.record, &mut self.counter, now, (id, ttl_ms));
        self.tokens.extend(ours.map(|token| (id, FencingToken::from_micros(token))));
        let theirs = server.set(&format!("h {id}"), ttl_ms);
        (ours == theirs).then_some(()).ok_or(format!("the model set {ours:?}, SET {theirs:?}"))
    }

    fn learn(&mut self, id: HolderId, outcome: &Outcome) {
        match &outcome.reply {
            Reply::Granted(grant) => self.tokens.push((id, grant.token)),
            Reply::Queued(place) => self.places.push((id, place.sequence)),
            _ => {}
        }
        for (client, message) in &outcome.messages {
            if let leasehold_core::Message::Granted { attempt, token, .. } = message {
                self.tokens.push((HolderId { client: *client, attempt: *attempt }, *token));
            }
        }
    }
}

/// Times in replies may differ a little.
fn is_same(ours: &Reply, theirs: &Reply) -> bool {
    let tolerance = Duration::from_millis(TOLERANCE_MS);
    let is_near = |ours: Duration, theirs: Duration| ours.abs_diff(theirs) < tolerance;
    match (ours, theirs) {
        (Reply::Busy { retry_after: ours }, Reply::Busy { retry_after: theirs }) => {
            is_near(*ours, *theirs)
        }
        (Reply::Queued(ours), Reply::Queued(theirs)) => {
            let timeless = |it: &Place| (it.sequence, it.ahead, it.other_capacity);
            timeless(ours) == timeless(theirs) && is_near(ours.retry_after, theirs.retry_after)
        }
        (Reply::Status(ours), Reply::Status(theirs)) => shown(ours) == shown(theirs),
        (ours, theirs) => ours == theirs,
    }
}

/// What a status shows, but for times.
fn shown(status: &Status) -> String {
    let holders = status.holders.iter().map(|holder| {
        let (id, mode) = (holder.id, holder.mode);
        format!("{:?}", (id, mode, holder.state, holder.token, &holder.info))
    });
    let mut holders: Vec<_> = holders.collect();
    holders.sort_unstable();
    let waiters = status.waiters.iter().map(|waiter| {
        format!("{:?} {:?} {:?}", (waiter.id, waiter.mode), waiter.info, waiter.position)
    });
    let waiters: Vec<_> = waiters.collect();
    let last = status.last_holder.as_ref().map(|last| (last.id, last.info.clone()));
    format!("{holders:?} {waiters:?} {} {last:?}", status.waiting)
}

/// The facts about a client; two of them have none.
fn info(id: HolderId) -> HolderInfo {
    match id.client.0 {
        0 | 1 => HolderInfo::default(),
        client => HolderInfo::new("a host", client as u32).with_label(Some("b  c".to_owned())),
    }
}
