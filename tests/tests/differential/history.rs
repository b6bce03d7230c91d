//! Random histories: their steps, and the results when the model plays them.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::model::{self, Hold, NOT_AFTER, Record};
use leasehold_core::{
    Acquire, Action, Addressed, Adopt, Answer, ClientId, FencingToken, HolderId, HolderInfo,
    LockName, Mode, Now, Operation, PassedOn, Reclaim, RenewLease, Reply,
};
/// When every history begins, in µs. It is in the year 2049, so the real server's own clock ends
/// nothing. It is well above 10¹⁵, which a script must print and compute without loss.
pub(crate) const START_US: u64 = 2_500_000_000_123_457;

/// The names of a history: two locks and a semaphore of three.
pub(crate) const NAMES: [&str; 3] = ["a", "{b}/%", "permits"];

/// One step of a history. Its terms stay meaningful when other steps are left out, so that a
/// failing history can be shrunk.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A client does something.
    Act(usize, Who, Verb),
    /// The same action once more, as long as the answer asks for it.
    Again,
    /// The clock goes back, in µs.
    Back(u64),
    /// Records that are due are forgotten, as the server does by the key's time to live.
    Collect,
    /// Many clients acquire at the same time, each with a different ttl. The stride decides whether
    /// they end in the order in which they came, in the reverse order, or between.
    Crowd { name: usize, mode: Mode, size: u8, stride: u64, wait: bool },
    /// The key is deleted.
    Delete(usize),
    /// The server forgets its scripts.
    FlushScripts,
    /// The clock goes on, in µs.
    Pass(u64),
    /// Many leases are renewed in one call.
    RenewMany(Vec<(usize, Who, Duration)>),
}

/// The attempt of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// An attempt that holds, if there is one.
    Holder(usize),
    /// A new attempt of this client.
    New(u8),
    /// One of the last attempts of this client.
    Old(u8, u64),
    /// An attempt that waits, if there is one.
    Waiter(usize),
}

/// An action, without its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Acquire {
        mode: Mode,
        ttl: Duration,
        wait: bool,
        late: bool,
        ballot: Option<Named>,
    },
    /// Adopts the lease of the holder; rarely with another mode or another token.
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
        token: Named,
        ttl: Duration,
        late: bool,
    },
    Release {
        cooldown: Duration,
        unanswered: bool,
    },
    Renew {
        ttl: Duration,
    },
    Revoke {
        force: bool,
        wrong_token: bool,
    },
}

/// The difference between an adoption and the lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    Mode(Mode),
    None,
    Token(Option<Named>),
}

/// A token time that a caller names: its distance in µs from the clock, from the last token of the
/// name, or from the token of the caller's hold.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Clock(i64),
    Last(i64),
    Own(i64),
}

/// A request to a server.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
    Delete(usize),
    FlushScripts,
    Operation(Box<Operation>),
}

/// One request to a server, and the model's result.
#[derive(Clone, Debug)]
pub(crate) struct Played {
    pub(crate) asked: Asked,
    pub(crate) now_us: u64,
    pub(crate) answer: Option<Answer>,
    pub(crate) messages: Vec<Addressed>,
    /// The records that were changed, in their state afterwards.
    pub(crate) after: Vec<(usize, Record)>,
}

/// How often `more` in an answer is followed at most.
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
            Verb::Acquire { mode, ttl, wait, late, ballot } => Action::Acquire(
                Acquire::new(id, mode, ttl)
                    .with_wait(wait)
                    .with_nonce(u64::MAX - id.attempt)
                    .with_not_after(self.not_after_us(late))
                    .with_ballot(ballot.map(|named| self.named_us(name, id, named)))
                    .with_remember(Duration::from_hours(id.attempt % 3))
                    .with_info(info(id)),
            ),
            Verb::Adopt { from, other, ttl, late, ballot } => {
                let record = &self.records[name];
                let hold = from.checked_rem(record.holds.len()).map(|nth| &record.holds[nth]);
                let from = hold.map_or(id, |hold| hold.id);
                let weight = hold.map_or(1, |hold| hold.weight);
                let token = hold.map(|hold| FencingToken::from_micros(hold.token_us));
                let named = |named| FencingToken::from_micros(self.named_us(name, from, named));
                let mode = match other {
                    Other::Mode(mode) => mode,
                    Other::None | Other::Token(_) => Mode::of(weight, record.capacity),
                };
                let token = match other {
                    Other::Token(token) => token.map(named),
                    Other::Mode(_) | Other::None => token,
                };
                let request = Acquire::new(id, mode, ttl)
                    .with_nonce(u64::MAX - id.attempt)
                    .with_not_after(self.not_after_us(late))
                    .with_ballot(ballot.map(|named| self.named_us(name, id, named)))
                    .with_info(info(id));
                Action::Adopt(Adopt::new(from, token, request))
            }
            Verb::Cancel { unanswered } => Action::Cancel { id, unanswered },
            Verb::Commit { token, ttl } => {
                let token = FencingToken::from_micros(self.named_us(name, id, token));
                Action::Commit { id, token, ttl }
            }
            Verb::Describe { pid } => {
                let mut info = info(id);
                info.pid = pid;
                Action::Describe { id, info: info.with_passed_on(passed_on(pid)) }
            }
            Verb::Inspect { limit } => Action::Inspect { limit },
            Verb::Poll { ttl } => Action::Poll { id, ttl },
            Verb::Reclaim { mode, token, ttl, late } => {
                let token = FencingToken::from_micros(self.named_us(name, id, token));
                let request = Acquire::new(id, mode, ttl)
                    .with_nonce(u64::MAX - id.attempt)
                    .with_not_after(self.not_after_us(late))
                    .with_info(info(id));
                Action::Reclaim(Reclaim::new(token, request))
            }
            Verb::Release { cooldown, unanswered } => Action::Release { id, cooldown, unanswered },
            Verb::Renew { ttl } => Action::Renew { id, ttl },
            Verb::Revoke { force, wrong_token } => {
                let token_us = self.hold(name, id).map_or(START_US, |hold| hold.token_us);
                let token_us = token_us + u64::from(wrong_token);
                let token = FencingToken::from_micros(token_us);
                let told = self.hold(name, id).map_or(0, |hold| hold.info.passed_on().times);
                // The holder that was reported last, or one that has released before.
                let times = if force { told } else { 1 };
                Action::Revoke { id, token: token.passed_on(times).unwrap_or(token), force }
            }
        }
    }

    fn hold(&self, name: usize, id: HolderId) -> Option<&Hold> {
        self.records[name].holds.iter().find(|hold| hold.id == id)
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
        let (now, rules) = (self.now(), model::Rules::new());
        let outcome = model::step(&mut self.records[name], now, rules, &action);
        let more = outcome.more;
        let answer = Answer::new(now, outcome.reply).with_more(more);
        self.last = Some((name, action.clone()));
        let operation = Operation::On { name: self::name(name), action };
        self.push(Asked::Operation(Box::new(operation)), Some(answer), outcome.messages, &[name]);
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

    fn renew_many(&mut self, leases: &[(usize, Who, Duration)]) {
        let (now, rules) = (self.now(), model::Rules::new());
        let (mut more, mut messages) = (false, Vec::new());
        let (mut asked, mut replies) = (Vec::new(), Vec::new());
        for (name, who, ttl) in leases {
            let id = self.id(*name, *who);
            let lease = RenewLease::new(self::name(*name), id, *ttl);
            let (record, action) = (&mut self.records[*name], lease.action());
            let outcome = model::step(record, now, rules, &action);
            asked.push(lease);
            more |= outcome.more;
            messages.extend(outcome.messages);
            replies.push(outcome.reply);
        }
        let answer = Answer::new(now, Reply::Many(replies)).with_more(more);
        let touched: Vec<_> = leases.iter().map(|(name, ..)| *name).collect();
        let asked = Asked::Operation(Box::new(Operation::Renew(asked)));
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
        let now_us = self.now_us;
        self.played.push(Played { asked, now_us, answer, messages, after });
    }
}

/// Clients that differ only in their first byte or only in their last one. So their bytes also
/// occur across the borders of packed values.
fn client_id(client: u8) -> ClientId {
    ClientId(if client.is_multiple_of(2) {
        u128::from(client) + 1
    } else {
        u128::from(client) << 120
    })
}

fn info(id: HolderId) -> HolderInfo {
    let label = (!id.attempt.is_multiple_of(3)).then(|| "x".repeat(id.attempt as usize % 90));
    HolderInfo::new(format!("host-{}", id.attempt), id.attempt as u32).with_label(label)
}

pub(crate) fn micros(span: Duration) -> u64 {
    span.as_micros() as u64
}

/// How often a lease was passed on within the process: mostly never.
pub(crate) fn passed_on(pid: u32) -> PassedOn {
    let times = if pid.is_multiple_of(2) { 0 } else { (pid % 300) as u16 };
    PassedOn { times, after: Duration::from_micros(pid.into()) }
}
