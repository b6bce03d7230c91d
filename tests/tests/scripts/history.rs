//! A history: what clients ask for one name, and how much time passes between.

use leasehold_core::{ClientId, HolderId, HolderInfo, Mode, Now};
use proptest::prelude::*;

use super::model::{
    self, Action, Description, End, Hold, Outcome, Record, Refusal, Reply, Rules, State, Take,
    Times,
};
use super::server::{INBOXES, Server};
use super::text::{self, Keys};

/// By how much times of the two clocks may differ (ms).
const TOLERANCE_MS: u64 = 150;

const TTL_MS: u64 = 10_000;

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Delete {
        described: bool,
    },
    End {
        closes: bool,
        cooldown_ms: u64,
        remember_ms: u64,
    },
    Keep {
        described: bool,
    },
    Look,
    Revoke {
        force: bool,
    },
    Set,
    Take {
        waits: bool,
        brings_place: bool,
        ballot: Option<i64>,
    },
    /// Takes over the lease of another client.
    TakeOver {
        from: u8,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// One client acts, in the first or the second of its attempts.
    Act {
        client: u8,
        attempt: u64,
        verb: Verb,
    },
    /// The queue is lost.
    Lose,
    Pass(u64),
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ballot = prop_oneof![-2i64..3, -20_000_000i64..20_000_000];
    let verb = prop_oneof![
        2 => any::<bool>().prop_map(|described| Verb::Delete { described }),
        6 => (any::<bool>(), prop_oneof![4 => Just(0u64), 1 => Just(7_000)],
              prop_oneof![4 => Just(0u64), 1 => Just(20_000)])
            .prop_map(|(closes, cooldown_ms, remember_ms)| {
                Verb::End { closes: closes && cooldown_ms == 0, cooldown_ms, remember_ms }
            }),
        3 => any::<bool>().prop_map(|described| Verb::Keep { described }),
        1 => Just(Verb::Look),
        1 => any::<bool>().prop_map(|force| Verb::Revoke { force }),
        2 => Just(Verb::Set),
        9 => (prop::bool::weighted(0.8), any::<bool>(), prop::option::weighted(0.1, ballot))
            .prop_map(|(waits, brings_place, ballot)| {
                Verb::Take { waits, brings_place, ballot }
            }),
        1 => (0u8..5).prop_map(|from| Verb::TakeOver { from }),
    ];
    let step = prop_oneof![
        12 => (0u8..5, 1u64..3, verb)
            .prop_map(|(client, attempt, verb)| Step::Act { client, attempt, verb }),
        1 => Just(Step::Lose),
        3 => prop_oneof![Just(1_100u64), Just(2_300), Just(3_700), Just(5_300), Just(11_000)]
            .prop_map(Step::Pass),
    ];
    (prop::collection::vec(step, 1..60), 0u8..4).prop_map(|(mut steps, kind)| {
        // All clients of a history want the same kind of lock, but for a few.
        steps.insert(0, Step::Pass(u64::from(kind)));
        steps
    })
}

pub(super) struct History {
    record: Record,
    counter: u64,
    /// What each attempt knows.
    places: Vec<(HolderId, u64)>,
    tokens: Vec<(HolderId, u64)>,
    kind: u64,
}

fn id(client: u8, attempt: u64) -> HolderId {
    HolderId { client: ClientId(u128::from(client)), attempt }
}

fn last_of(known: &[(HolderId, u64)], id: HolderId) -> Option<u64> {
    known.iter().rev().find(|(other, _)| *other == id).map(|(_, number)| *number)
}

impl History {
    pub(super) fn new() -> Self {
        Self {
            record: Record::default(),
            counter: 0,
            places: Vec::new(),
            tokens: Vec::new(),
            kind: 0,
        }
    }

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
                server.delete(":q");
                server.delete(":w");
                self.record.queue.clear();
                self.record.clean();
            }
            Step::Act { client, verb: Verb::Set | Verb::TakeOver { .. }, .. }
                if self.mode(client) != Mode::Exclusive => {}
            Step::Act { client, attempt, verb } => {
                self.act(server, id(client, attempt), self.mode(client), verb)?;
            }
        }
        let now_ms = server.now_us() / 1_000;
        if self.is_ambiguous(now_ms) {
            server.pass(3 * TOLERANCE_MS);
            return Ok(());
        }
        self.record.expire(now_ms);
        self.record.clean();
        self.compare_keys(server, now_ms)
    }

    /// Whether something ends so near to now that the two clocks may disagree.
    fn is_ambiguous(&self, now_ms: u64) -> bool {
        let Times { grace_ms, ask_ms, window_ms, .. } = Times::REAL;
        let record = &self.record;
        let gate = record.gate.iter().flat_map(|gate| {
            let free_ms = match gate.state {
                State::Cooling { until_ms, .. } => until_ms,
                _ => gate.until_ms,
            };
            [gate.until_ms, gate.until_ms.saturating_sub(grace_ms), free_ms]
        });
        let asked = record.queue.values().map(|waiter| waiter.asked_ms + ask_ms + window_ms);
        let shares = record.shares.values().map(|share| share.deadline_ms);
        let lists = [record.queue_until_ms, record.closed_until_ms];
        let mut times = gate.chain(asked).chain(shares).chain(lists);
        times.any(|at_ms| at_ms.abs_diff(now_ms) < TOLERANCE_MS)
    }

    fn compare_keys(&self, server: &mut Server, now_ms: u64) -> Result<(), String> {
        let (ours, theirs) = (Keys::of(&self.record), server.keys());
        if ours != theirs {
            return Err(format!("the model has {ours:?}\nthe server has {theirs:?}"));
        }
        let lives = [
            ("", self.record.gate.as_ref().map(|gate| gate.until_ms)),
            (":q", (self.record.queue_until_ms > 0).then_some(self.record.queue_until_ms)),
            (":x", (self.record.closed_until_ms > 0).then_some(self.record.closed_until_ms)),
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
        let now = Now { lease_us: now_us, token_us: now_us };
        let Some(action) = self.action(id, mode, verb, now_us) else {
            return self.by_one_command(server, id, verb, now);
        };
        let rules = Rules::NORMAL;
        let outcome = model::step(&mut self.record, &mut self.counter, now, rules, &action);
        let request = text::request(id, mode, &info(id));
        let theirs = match &action {
            Action::End(end) => {
                let (cooldown_ms, remember) = (end.cooldown_ms.to_string(), end.remember.as_ref());
                let remember_ms = remember.map_or(0, |(remember_ms, _)| *remember_ms).to_string();
                let closes = u8::from(end.closes).to_string();
                let args = [format!("q {request}"), INBOXES.to_owned(), cooldown_ms, remember_ms];
                let args = [&args[..], &[text::facts(&info(id)), closes]].concat();
                server.run::<u32>("end", &args).to_string()
            }
            Action::Keep { ttl_ms, description, .. } => {
                let said = match mode {
                    Mode::Exclusive => text::held(&self.described(id, description.is_some())),
                    _ => format!("s {request}"),
                };
                server.run("keep", &[ttl_ms.to_string(), said])
            }
            Action::Look { .. } => return look(server, &outcome.reply),
            Action::Revoke { force, .. } => {
                let force = u8::from(*force).to_string();
                let args = [text::attempt(id), force, INBOXES.to_owned()];
                server.run::<u32>("revoke", &args).to_string()
            }
            Action::Take(take) => server.run("take", &asked(take, request)),
        };
        self.learn(id, &outcome);
        check(&said(&outcome.reply), &theirs)?;
        let told = outcome.messages.iter().map(|granted| {
            let attempt = text::attempt(granted.id);
            format!("G {attempt} {} {}", granted.token, granted.now_ms)
        });
        let heard: Vec<_> = server.heard().into_iter().filter(|m| m.starts_with('G')).collect();
        match told.eq(heard.iter().cloned()) {
            true => Ok(()),
            false => Err(format!("the inboxes heard {heard:?}")),
        }
    }

    fn action(&self, id: HolderId, mode: Mode, verb: Verb, now_us: u64) -> Option<Action> {
        Some(match verb {
            Verb::Set | Verb::Delete { .. } => return None,
            Verb::End { closes, cooldown_ms, remember_ms } => {
                let remember = (remember_ms > 0).then(|| (remember_ms, info(id)));
                Action::End(End { id, closes, cooldown_ms, remember })
            }
            Verb::Keep { described } => {
                let Hold { token, info, .. } = self.described(id, described);
                let description = token.map(|token| Description { token, info });
                Action::Keep { id, ttl_ms: TTL_MS, description }
            }
            Verb::Look => Action::Look { limit: 100 },
            Verb::Revoke { force } => Action::Revoke { id, force },
            Verb::Take { waits, brings_place, ballot } => {
                let highest = self.counter.max(now_us);
                let ballot = ballot.filter(|_| self.kind == 0);
                let ballot = ballot.map(|above| highest.saturating_add_signed(above));
                let waits = waits && ballot.is_none();
                let place = last_of(&self.places, id).filter(|_| brings_place && waits);
                let take = Take::new(id, mode, TTL_MS);
                Action::Take(Take { waits, place, ballot, info: info(id), ..take })
            }
            Verb::TakeOver { from } => {
                let from = HolderId { client: ClientId(u128::from(from)), attempt: 1 };
                let from = Some((from, last_of(&self.tokens, from).unwrap_or(1)));
                let take = Take::new(id, mode, TTL_MS);
                Action::Take(Take { waits: false, from, info: info(id), ..take })
            }
        })
    }

    /// What the gate says of an attempt, before or after it was described.
    fn described(&self, id: HolderId, is_described: bool) -> Hold {
        match last_of(&self.tokens, id).filter(|_| is_described) {
            Some(token) => Hold { id, token: Some(token), info: HolderInfo::new("h", 1) },
            None => Hold { id, token: None, info: HolderInfo::default() },
        }
    }

    fn by_one_command(
        &mut self,
        server: &mut Server,
        id: HolderId,
        verb: Verb,
        now: Now,
    ) -> Result<(), String> {
        if let Verb::Delete { described } = verb {
            let expected = self.described(id, described);
            if model::delete(&mut self.record, now, &expected) {
                let args = [text::held(&expected), INBOXES.to_owned()];
                return check("1", &server.run::<u32>("end", &args).to_string());
            }
            return Ok(());
        }
        let value = text::held(&self.described(id, false));
        let ours = model::set(&mut self.record, &mut self.counter, now, (id, TTL_MS));
        self.tokens.extend(ours.map(|token| (id, token)));
        let theirs = server.set(&value, TTL_MS, now.token_us);
        check(&format!("{ours:?}"), &format!("{theirs:?}"))
    }

    fn learn(&mut self, id: HolderId, outcome: &Outcome) {
        match outcome.reply {
            Reply::Granted { token } => self.tokens.push((id, token)),
            Reply::Queued { place, .. } => self.places.push((id, place)),
            _ => {}
        }
        self.tokens.extend(outcome.messages.iter().map(|granted| (granted.id, granted.token)));
    }
}

/// The arguments of `take`.
fn asked(take: &Take, request: String) -> Vec<String> {
    let place = match (take.waits, take.place) {
        (true, place) => place.unwrap_or_default().to_string(),
        (false, _) => "-".to_owned(),
    };
    let more = match (take.ballot, take.from) {
        (Some(ballot), _) => format!("b {ballot}"),
        (None, Some((from, token))) => format!("f {} {token}", text::attempt(from)),
        (None, None) => String::new(),
    };
    vec![request, take.ttl_ms.to_string(), place, INBOXES.to_owned(), more]
}

fn look(server: &mut Server, ours: &Reply) -> Result<(), String> {
    type Name = (Option<String>, i64, usize, Vec<String>, Vec<String>);
    let Reply::Status(status) = ours else { return Err("no status".to_owned()) };
    let names: Vec<Name> = server.run("look", &["100".to_owned()]);
    let (_, _, waiting, waiters, _) = &names[0];
    let is_equal = *waiting == status.waiting && waiters.len() == 2 * status.waiters.len();
    is_equal.then_some(()).ok_or(format!("{waiting} wait, not {}", status.waiting))
}

/// The reply of the model, as the scripts say it.
fn said(reply: &Reply) -> String {
    match reply {
        Reply::Busy { left_ms } => format!("B {left_ms}"),
        Reply::Closed => "C".to_owned(),
        Reply::Ended(ended) => u8::from(*ended).to_string(),
        Reply::Granted { token } => format!("G {token}"),
        Reply::Kept { awaited } => if *awaited { "w" } else { "h" }.to_owned(),
        Reply::NotHeld => "N".to_owned(),
        Reply::Queued { place, ahead, ask_ms } => format!("Q {place} {ahead} {ask_ms}"),
        Reply::Refused(Refusal::Ballot) => "V".to_owned(),
        Reply::Refused(Refusal::Mismatch { capacity }) => format!("M {capacity}"),
        Reply::Refused(Refusal::QueueFull) => "F".to_owned(),
        Reply::Refused(Refusal::Weight) => "W".to_owned(),
        Reply::Revoked => "R".to_owned(),
        Reply::Status(_) => "S".to_owned(),
    }
}

/// Times in replies may differ a little.
fn check(ours: &str, theirs: &str) -> Result<(), String> {
    let is_wait = |reply: &str| reply.starts_with("B ") || reply.starts_with("Q ");
    let split = |reply: &str| {
        let (said, ms) = reply.rsplit_once(' ').unwrap_or((reply, ""));
        (said.to_owned(), ms.parse::<u64>().unwrap_or_default())
    };
    let is_same = match is_wait(ours) && is_wait(theirs) {
        true => {
            let ((ours, ours_ms), (theirs, theirs_ms)) = (split(ours), split(theirs));
            ours == theirs && ours_ms.abs_diff(theirs_ms) < TOLERANCE_MS
        }
        false => ours.to_lowercase() == theirs.to_lowercase().replace('-', "n"),
    };
    is_same.then_some(()).ok_or(format!("the model replied {ours}, the script {theirs}"))
}

/// The facts about a client; two of them have none.
fn info(id: HolderId) -> HolderInfo {
    match id.client.0 {
        0 | 1 => HolderInfo::default(),
        client => HolderInfo::new("host", client as u32),
    }
}
