//! Random histories: what is generated and shrunk, and what it comes to when the model plays it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::model::{self, Hold, NOT_AFTER, Record};
use leasehold_core::{
    Acquire, Action, Addressed, Adopt, Answer, ClientId, Facts, FencingToken, HolderId, LockName,
    Mode, Now, Operation, Reclaim, RenewLease, Reply,
};
use proptest::prelude::*;

/// When every history begins, in µs: in the year 2049, so that the real server's own clock ends
/// nothing, and well above 10¹⁵, which a script must print and reckon without loss.
pub(crate) const START_US: u64 = 2_500_000_000_123_457;

/// The names of a history: two locks and a semaphore of three.
pub(crate) const NAMES: [&str; 3] = ["a", "{b}/%", "permits"];

/// One step of a history, in terms that stay meaningful when others are left out: so that a
/// failing history can be shrunk.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Somebody does something.
    Act(usize, Who, Verb),
    /// The same action once more, as long as the answer asks for it.
    Again,
    /// The clock goes back, in µs.
    Back(u64),
    /// Records whose time is over are forgotten, as the server does by the key's time to live.
    Collect,
    /// Many clients at once acquire, each for another time: the stride tells in which order they
    /// end, from that of their coming to the reverse.
    Crowd { name: usize, mode: Mode, size: u8, stride: u64, wait: bool },
    /// The key is deleted.
    Delete(usize),
    /// The server forgets its scripts.
    FlushScripts,
    /// The clock goes on, in µs.
    Pass(u64),
    /// Many leases are renewed in one call.
    RenewMany(Vec<(usize, Who, Duration, Believed)>),
}

/// Whose attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// One that holds, if there is any.
    Holder(usize),
    /// A new one of this client.
    New(u8),
    /// One of this client's last.
    Old(u8, u64),
    /// One that waits, if there is any.
    Waiter(usize),
}

/// An action, without whose it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Acquire {
        mode: Mode,
        ttl: Duration,
        wait: bool,
        late: bool,
        ballot: Option<Named>,
    },
    /// The lease of whoever holds; rarely of another mode, or with another token.
    Adopt {
        from: usize,
        other: Other,
        ttl: Duration,
        late: bool,
        ballot: Option<Named>,
    },
    Cancel {
        unanswered: bool,
    },
    ChangeMode(Mode, i64),
    Commit {
        token: Named,
        ttl: Duration,
    },
    Describe {
        pid: u32,
    },
    Inspect {
        limit: u32,
    },
    Poll {
        ttl: Duration,
    },
    Reclaim {
        mode: Mode,
        change: i64,
        token: Named,
        ttl: Duration,
        late: bool,
    },
    Release {
        keep: Duration,
        unanswered: bool,
    },
    Renew {
        ttl: Duration,
        believed: Believed,
    },
    Revoke {
        force: bool,
        wrong_token: bool,
    },
    SetCapacity(u32),
}

/// In what an adoption differs from the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    Mode(Mode),
    None,
    Token(Option<Named>),
}

/// What a holder believes of its hold: its mode, or another, and a change so far from its last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Believed(Option<Mode>, i64);

/// A token time that a caller names: so far from the clock, from the last token of the name, or
/// from the token of its own hold, in µs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Clock(i64),
    Last(i64),
    Own(i64),
}

/// What a server is asked to do.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Delete(usize),
    FlushScripts,
    Operation(Operation),
}

/// One thing that a server is asked to do, and what the model did.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) asked: Asked,
    pub(crate) now_us: u64,
    pub(crate) answer: Option<Answer>,
    pub(crate) messages: Vec<Addressed>,
    /// The records that were touched, as they are afterwards.
    pub(crate) after: Vec<(usize, Record)>,
}

/// Most often an answer's `more` is followed.
const MOST_AGAIN: u32 = 8;

/// The model's side of a history.
pub(crate) struct World {
    records: [Record; NAMES.len()],
    attempts: BTreeMap<u8, u64>,
    now_us: u64,
    last: Option<(usize, Action)>,
    played: Vec<Played>,
}

/// Plays a history on the model.
pub(crate) fn play(steps: &[Step]) -> Vec<Played> {
    let mut world = World {
        records: Default::default(),
        attempts: BTreeMap::new(),
        now_us: START_US,
        last: None,
        played: Vec::new(),
    };
    for step in steps {
        world.step(step);
    }
    world.played
}

/// The name with this index.
pub(crate) fn name(index: usize) -> LockName {
    LockName::new(NAMES[index]).unwrap()
}

impl World {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Act(name, who, verb) => {
                let id = self.id(*name, *who);
                let action = self.action(*name, id, *verb);
                self.act(*name, action);
            }
            Step::Again => self.again(),
            Step::Back(us) => self.now_us -= us,
            Step::Collect => {
                for name in 0..NAMES.len() {
                    if self.records[name].collect_at_us <= self.now_us {
                        self.delete(name);
                    }
                }
            }
            Step::Crowd { name, mode, size, stride, wait } => {
                for client in 0..*size {
                    let id = self.id(*name, Who::New(client));
                    let ttl = Duration::from_millis(1000 + u64::from(client) * stride % 97 * 50);
                    let (mode, wait) = (*mode, *wait);
                    let verb = Verb::Acquire { mode, ttl, wait, late: false, ballot: None };
                    let action = self.action(*name, id, verb);
                    self.act(*name, action);
                }
            }
            Step::Delete(name) => self.delete(*name),
            Step::FlushScripts => self.push(Asked::FlushScripts, None, Vec::new(), &[]),
            Step::Pass(us) => self.now_us += us,
            Step::RenewMany(leases) => self.renew_many(leases),
        }
    }

    fn now(&self) -> Now {
        Now { lease_us: self.now_us, token_us: self.now_us }
    }

    fn id(&mut self, name: usize, who: Who) -> HolderId {
        let record = &self.records[name];
        let (client, back) = match who {
            Who::Holder(nth) => match record.holds.len() {
                0 => (0, 0),
                count => return record.holds[nth % count].id,
            },
            Who::New(client) => {
                *self.attempts.entry(client).or_default() += 1;
                (client, 0)
            }
            Who::Old(client, back) => (client, back),
            Who::Waiter(nth) => match record.queue.len() {
                0 => (1, 0),
                count => return record.queue.values().nth(nth % count).unwrap().id,
            },
        };
        let attempt = self.attempts.get(&client).copied().unwrap_or(1).saturating_sub(back).max(1);
        HolderId { client: client_id(client), attempt }
    }

    fn action(&self, name: usize, id: HolderId, verb: Verb) -> Action {
        match verb {
            Verb::Acquire { mode, ttl, wait, late, ballot } => Action::Acquire(Acquire {
                id,
                mode,
                ttl,
                wait,
                nonce: u64::MAX - id.attempt,
                not_after_us: self.not_after_us(late),
                ballot_us: ballot.map(|named| self.named_us(name, id, named)),
                facts: facts(id),
            }),
            Verb::Adopt { from, other, ttl, late, ballot } => {
                let record = &self.records[name];
                let hold = from.checked_rem(record.holds.len()).map(|nth| &record.holds[nth]);
                let from = hold.map_or(id, |hold| hold.id);
                let weight = hold.map_or(1, |hold| hold.weight);
                let token = hold.map(|hold| FencingToken::at_us(hold.token_us));
                let named = |named| FencingToken::at_us(self.named_us(name, from, named));
                Action::Adopt(Adopt {
                    id,
                    from,
                    mode: match other {
                        Other::Mode(mode) => mode,
                        Other::None | Other::Token(_) => Mode::of(weight, record.capacity),
                    },
                    token: match other {
                        Other::Token(token) => token.map(named),
                        Other::Mode(_) | Other::None => token,
                    },
                    ttl,
                    nonce: u64::MAX - id.attempt,
                    not_after_us: self.not_after_us(late),
                    ballot_us: ballot.map(|named| self.named_us(name, id, named)),
                    facts: facts(id),
                })
            }
            Verb::Cancel { unanswered } => Action::Cancel { id, unanswered },
            Verb::ChangeMode(mode, away) => {
                Action::ChangeMode { id, mode, change: self.change(name, id, away) }
            }
            Verb::Commit { token, ttl } => {
                let token = FencingToken::at_us(self.named_us(name, id, token));
                Action::Commit { id, token, ttl }
            }
            Verb::Describe { pid } => Action::Describe { id, facts: Facts { pid, ..facts(id) } },
            Verb::Inspect { limit } => Action::Inspect { limit },
            Verb::Poll { ttl } => Action::Poll { id, ttl },
            Verb::Reclaim { mode, change, token, ttl, late } => Action::Reclaim(Reclaim {
                id,
                mode,
                change: self.change(name, id, change),
                token: FencingToken::at_us(self.named_us(name, id, token)),
                ttl,
                nonce: u64::MAX - id.attempt,
                not_after_us: self.not_after_us(late),
                facts: facts(id),
            }),
            Verb::Release { keep, unanswered } => Action::Release { id, keep, unanswered },
            Verb::Renew { ttl, believed } => self.renewal(name, id, ttl, believed).action(),
            Verb::Revoke { force, wrong_token } => {
                let token_us = self.hold(name, id).map_or(START_US, |hold| hold.token_us);
                let token_us = token_us + u64::from(wrong_token);
                Action::Revoke { id, token: FencingToken::at_us(token_us), force }
            }
            Verb::SetCapacity(capacity) => Action::SetCapacity { capacity },
        }
    }

    fn hold(&self, name: usize, id: HolderId) -> Option<&Hold> {
        self.records[name].holds.iter().find(|hold| hold.id == id)
    }

    fn change(&self, name: usize, id: HolderId, away: i64) -> u64 {
        self.hold(name, id).map_or(0, |hold| hold.change).saturating_add_signed(away)
    }

    fn renewal(&self, name: usize, id: HolderId, ttl: Duration, believed: Believed) -> RenewLease {
        let (Believed(mode, away), capacity) = (believed, self.records[name].capacity);
        let own = self.hold(name, id).map(|hold| Mode::of(hold.weight, capacity));
        let mode = mode.or(own).unwrap_or(Mode::Exclusive);
        let change = self.change(name, id, away);
        RenewLease { name: self::name(name), id, ttl, mode, change }
    }

    fn not_after_us(&self, late: bool) -> u64 {
        if late { self.now_us - 1 } else { self.now_us + micros(NOT_AFTER) }
    }

    fn named_us(&self, name: usize, id: HolderId, named: Named) -> u64 {
        let record = &self.records[name];
        let (base_us, away_us) = match named {
            Named::Clock(away_us) => (self.now_us, away_us),
            Named::Last(away_us) => (record.last_token_us, away_us),
            Named::Own(away_us) => {
                let own = record.holds.iter().find(|hold| hold.id == id);
                (own.map_or(record.last_token_us, |hold| hold.token_us), away_us)
            }
        };
        base_us.saturating_add_signed(away_us)
    }

    fn act(&mut self, name: usize, action: Action) -> bool {
        let now = self.now();
        let outcome = model::step(&mut self.records[name], now, model::DEFAULT_RETENTION, &action);
        let more = outcome.more;
        let answer = Answer { now, more, reply: outcome.reply };
        self.last = Some((name, action.clone()));
        let operation = Operation::On { name: self::name(name), action };
        self.push(Asked::Operation(operation), Some(answer), outcome.messages, &[name]);
        more
    }

    fn again(&mut self) {
        for _ in 0..MOST_AGAIN {
            let Some((name, action)) = self.last.clone() else { return };
            if !self.act(name, action) {
                return;
            }
        }
    }

    fn delete(&mut self, name: usize) {
        self.records[name] = Record::default();
        self.push(Asked::Delete(name), None, Vec::new(), &[name]);
    }

    fn renew_many(&mut self, leases: &[(usize, Who, Duration, Believed)]) {
        let (now, mut more, mut messages) = (self.now(), false, Vec::new());
        let (mut asked, mut replies) = (Vec::new(), Vec::new());
        for (name, who, ttl, believed) in leases {
            let id = self.id(*name, *who);
            let lease = self.renewal(*name, id, *ttl, *believed);
            let (record, action) = (&mut self.records[*name], lease.action());
            let outcome = model::step(record, now, model::DEFAULT_RETENTION, &action);
            asked.push(lease);
            more |= outcome.more;
            messages.extend(outcome.messages);
            replies.push(outcome.reply);
        }
        let answer = Answer { now, more, reply: Reply::Many(replies) };
        let touched: Vec<_> = leases.iter().map(|(name, ..)| *name).collect();
        let asked = Asked::Operation(Operation::Renew(asked));
        self.push(asked, Some(answer), messages, &touched);
    }

    fn push(
        &mut self,
        asked: Asked,
        answer: Option<Answer>,
        messages: Vec<Addressed>,
        touched: &[usize],
    ) {
        let after = touched.iter().map(|&name| (name, self.records[name].clone())).collect();
        self.played.push(Played { asked, now_us: self.now_us, answer, messages, after });
    }
}

/// Clients that differ in their first byte only or in their last only, so that their bytes are also
/// found across the borders of what is packed together.
fn client_id(client: u8) -> ClientId {
    ClientId(if client.is_multiple_of(2) {
        u128::from(client) + 1
    } else {
        u128::from(client) << 120
    })
}

fn facts(id: HolderId) -> Facts {
    let label = (!id.attempt.is_multiple_of(3)).then(|| "x".repeat(id.attempt as usize % 90));
    Facts { host: format!("host-{}", id.attempt), pid: id.attempt as u32, label }
}

fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

/// Any history.
pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scene = prop_oneof![
        600 => step().prop_map(|step| vec![step]),
        5 => readers_that_end(),
        10 => a_reader_that_wants_to_write(),
    ];
    prop::collection::vec(scene, 1..100).prop_map(|scenes| scenes.concat())
}

/// More readers than one sweep looks at, some of whom end, and what is done meanwhile.
fn readers_that_end() -> impl Strategy<Value = Vec<Step>> {
    let keep = (0u64..3_000_000)
        .prop_map(|us| Verb::Release { keep: Duration::from_micros(us), unanswered: false });
    let meanwhile =
        prop::collection::vec((0usize..110, prop_oneof![2 => verb(0), 1 => keep]), 1..5);
    (65u8..110, 0u64..97, 900_000u64..4_000_000, meanwhile).prop_map(
        |(size, stride, us, meanwhile)| {
            let crowd = Step::Crowd { name: 0, mode: Mode::Shared, size, stride, wait: false };
            let acts =
                meanwhile.into_iter().map(|(nth, verb)| Step::Act(0, Who::Holder(nth), verb));
            [Step::Delete(0), crowd, Step::Pass(us)].into_iter().chain(acts).collect()
        },
    )
}

/// A few readers, perhaps with an upgradable one, one of whom asks to become the writer, and what is
/// done meanwhile.
fn a_reader_that_wants_to_write() -> impl Strategy<Value = Vec<Step>> {
    let meanwhile = prop::collection::vec((who(), verb(0)), 1..6);
    (2u8..5, 0usize..5, any::<bool>(), meanwhile).prop_map(|(size, nth, is_mixed, meanwhile)| {
        let (mode, wait) = (Mode::Upgradable, false);
        let ttl = Duration::from_secs(30);
        let upgradable = Verb::Acquire { mode, ttl, wait, late: false, ballot: None };
        let upgradable = is_mixed.then_some(Step::Act(0, Who::New(size), upgradable));
        let crowd = Step::Crowd { name: 0, mode: Mode::Shared, size, stride: 96, wait: false };
        let upgrade = Step::Act(0, Who::Holder(nth), Verb::ChangeMode(Mode::Exclusive, 1));
        let acts = meanwhile.into_iter().map(|(who, verb)| Step::Act(0, who, verb));
        let scene = [Step::Delete(0), crowd].into_iter().chain(upgradable).chain([upgrade]);
        scene.chain(acts).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        400 => act(),
        20 => Just(Step::Again),
        10 => (0u64..200_000_000).prop_map(Step::Back),
        20 => Just(Step::Collect),
        4 => crowd(),
        10 => (0..NAMES.len()).prop_map(Step::Delete),
        1 => Just(Step::FlushScripts), // which takes the server as long as hundreds of others
        120 => pass().prop_map(Step::Pass),
        30 => prop::collection::vec(renewed(), 1..6).prop_map(Step::RenewMany),
    ]
}

fn renewed() -> impl Strategy<Value = (usize, Who, Duration, Believed)> {
    (0..NAMES.len()).prop_flat_map(|name| (Just(name), who(), ttl(), believed(name)))
}

fn act() -> impl Strategy<Value = Step> {
    (0..NAMES.len()).prop_flat_map(|name| {
        (Just(name), who(), verb(name)).prop_map(|(name, who, verb)| Step::Act(name, who, verb))
    })
}

/// Enough readers for a bounded sweep, enough waiters for a bounded promotion, enough clients for
/// more tombstones than are kept.
fn crowd() -> impl Strategy<Value = Step> {
    let size = prop_oneof![1u8..40, 65u8..110];
    (0..NAMES.len(), size, 0u64..97, any::<bool>())
        .prop_flat_map(|(name, size, stride, wait)| {
            (Just(name), mode(name), Just(size), Just(stride), Just(wait))
        })
        .prop_map(|(name, mode, size, stride, wait)| Step::Crowd { name, mode, size, stride, wait })
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![
        4 => (0usize..100).prop_map(Who::Holder),
        6 => (0u8..4).prop_map(Who::New),
        1 => (0u8..80).prop_map(Who::New),
        3 => (0u8..4, 0u64..3).prop_map(|(client, back)| Who::Old(client, back)),
        3 => (0usize..100).prop_map(Who::Waiter),
    ]
}

fn verb(name: usize) -> impl Strategy<Value = Verb> {
    let flag = || prop::bool::weighted(0.3);
    let late = || prop::bool::weighted(0.05);
    let ballot = || prop::option::weighted(0.3, named());
    let acquire = (mode(name), ttl(), prop::bool::weighted(0.7), late(), ballot()).prop_map(
        |(mode, ttl, wait, late, ballot)| Verb::Acquire { mode, ttl, wait, late, ballot },
    );
    let reclaim = (mode(name), away(), named(), ttl(), late()).prop_map(
        |(mode, change, token, ttl, late)| Verb::Reclaim { mode, change, token, ttl, late },
    );
    let other = prop_oneof![
        8 => Just(Other::None),
        1 => mode(name).prop_map(Other::Mode),
        3 => prop::option::of(named()).prop_map(Other::Token),
    ];
    let adopt = (0usize..100, other, ttl(), late(), ballot()).prop_map(
        |(from, other, ttl, late, ballot)| Verb::Adopt { from, other, ttl, late, ballot },
    );
    let keep = prop_oneof![4 => Just(Duration::ZERO), 1 => ttl()];
    prop_oneof![
        12 => acquire,
        5 => adopt,
        2 => flag().prop_map(|unanswered| Verb::Cancel { unanswered }),
        5 => (mode(name), away()).prop_map(|(mode, away)| Verb::ChangeMode(mode, away)),
        3 => (named(), ttl()).prop_map(|(token, ttl)| Verb::Commit { token, ttl }),
        2 => any::<u32>().prop_map(|pid| Verb::Describe { pid }),
        1 => (0u32..50).prop_map(|limit| Verb::Inspect { limit }),
        8 => ttl().prop_map(|ttl| Verb::Poll { ttl }),
        5 => reclaim,
        8 => (keep, flag())
            .prop_map(|(keep, unanswered)| Verb::Release { keep, unanswered }),
        5 => (ttl(), believed(name)).prop_map(|(ttl, believed)| Verb::Renew { ttl, believed }),
        2 => (flag(), flag())
            .prop_map(|(force, wrong_token)| Verb::Revoke { force, wrong_token }),
        2 => (0u32..6).prop_map(Verb::SetCapacity),
    ]
}

/// How far from the last change of a hold another one is.
fn away() -> impl Strategy<Value = i64> {
    prop_oneof![2 => Just(-1), 3 => Just(0), 5 => Just(1), 1 => Just(3)]
}

fn believed(name: usize) -> impl Strategy<Value = Believed> {
    (prop::option::weighted(0.3, mode(name)), prop_oneof![3 => Just(0), 1 => away()])
        .prop_map(|(mode, away)| Believed(mode, away))
}

/// Close to what is there already, and around the bounds of what is believed.
fn named() -> impl Strategy<Value = Named> {
    let lead = micros(model::BALLOT_LEAD) as i64;
    let away = move || {
        prop_oneof![
            4 => -3i64..4,
            1 => -lead..lead,
            2 => lead - 2..lead + 3,
            1 => -lead * 9..-lead,
        ]
    };
    prop_oneof![
        away().prop_map(Named::Clock),
        away().prop_map(Named::Last),
        away().prop_map(Named::Own),
    ]
}

/// Mostly what fits the name; sometimes another capacity, or more than there is.
fn mode(name: usize) -> impl Strategy<Value = Mode> {
    let permits = |count: std::ops::Range<u32>, capacity: std::ops::Range<u32>| {
        (count, capacity).prop_map(|(count, capacity)| Mode::Permits { count, capacity })
    };
    let lock = if NAMES[name] == "permits" { 1 } else { 20 };
    prop_oneof![
        lock => Just(Mode::Exclusive),
        lock => Just(Mode::Shared),
        lock / 2 => Just(Mode::Upgradable),
        21 - lock => permits(1..4, 3..4),
        2 => permits(0..6, 1..6),
    ]
}

fn ttl() -> impl Strategy<Value = Duration> {
    prop_oneof![
        1 => Just(Duration::ZERO),
        4 => (1u64..3_000_000).prop_map(Duration::from_micros),
        6 => Just(Duration::from_secs(30)),
        1 => Just(Duration::from_hours(24)),
    ]
}

fn pass() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0u64..1_000_000,
        3 => 1_000_000u64..4_000_000,
        1 => 4_000_000u64..400_000_000,
    ]
}
