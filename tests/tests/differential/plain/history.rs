//! Random histories of a plain lock that programs in several languages want, their results, and a
//! check that no promise is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::store::redis_wire::{Layout, Plain};
use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::{
    Action, Description, End, FencingToken, HolderId, Keep, LockName, Mode, Reply, Request, Take,
};

use super::lock::{self, Key, Revoked, Value};
use crate::attempts::{self, Attempts, START_US, Who, info};
use crate::place::{Expected, INBOXES, Keys, revoked, string};

/// A name as other programs may use it, without escapes.
const NAME: &str = "jobs/%1 {a}";

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The last action of ours once more.
    Again,
    Ours(Who, Verb),
    /// The clock goes on, in µs.
    Pass(u64),
    /// One of several programs in other languages does something.
    Theirs(u8, Their),
}

/// An action of ours, without its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    End {
        closes: bool,
        cooldown: Duration,
    },
    /// With a description: a process, and how far the token is from that of the hold.
    Keep {
        ttl: Duration,
        describes: Option<(u32, i64)>,
    },
    Look,
    Revoke {
        force: bool,
    },
    /// With the distance of a ballot from the clock, in µs.
    Take {
        ttl: Duration,
        ballot: Option<i64>,
        from: Option<usize>,
    },
}

/// The operations of the lock in the Redis documentation, and other changes of its key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Their {
    /// Somebody deletes the key, whichever client holds it.
    Break,
    /// Compare and expire.
    Extend { lease_ms: u64 },
    /// Compare and delete.
    LetGo,
    /// Somebody removes the expiry of the key.
    Persist,
    /// `SET NX PX`.
    Take { lease_ms: u64 },
}

pub(crate) type Played = attempts::Played<Option<Key>, Revoked>;

#[derive(Default)]
struct Player {
    key: Option<Key>,
    now_us: u64,
    is_changed: bool,
    attempts: Attempts,
    /// Until when each of our holders believes that it holds, in µs.
    ours: BTreeMap<HolderId, u64>,
    theirs: BTreeMap<u8, u64>,
    played: Vec<Played>,
}

/// The result of a history, or the promise that is broken.
pub(crate) fn play(steps: &[Step]) -> Result<Vec<Played>, String> {
    let mut player = Player { now_us: START_US, is_changed: true, ..Player::default() };
    for (number, step) in steps.iter().enumerate() {
        player.step(step).map_err(|what| format!("step {number}, {step:?}: {what}"))?;
    }
    Ok(player.played)
}

pub(crate) fn expected(played: &Played) -> Expected {
    let layout = Plain { prefix: INBOXES.to_owned() };
    let keys = |key: &Option<Key>| -> Keys {
        let value = |key: &Key| string(key.end_ms.map_or(-1, |ms| ms as i64), key.value.text());
        key.iter().map(|key| (format!("{INBOXES}{NAME}"), value(key))).collect()
    };
    let message = |message: &Revoked| revoked(message.id, message.force);
    Expected {
        before: played.before.as_ref().map(keys),
        call: layout.act(&LockName::new(NAME).unwrap(), &played.action).unwrap(),
        now_us: played.now_us,
        reply: played.reply.clone(),
        messages: played.told.iter().map(message).collect(),
        after: keys(&played.after),
    }
}

impl Player {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Again => {
                let Some(last) = self.played.last().cloned() else { return Ok(()) };
                let still_is_so = !self.is_changed;
                let again = self.act(last.action.clone())?;
                if still_is_so {
                    last.check_copy(&again)?;
                }
            }
            Step::Ours(who, verb) => {
                let id = self.attempts.id(*who);
                let action = self.action(id, *verb);
                self.act(action)?;
            }
            Step::Pass(us) => {
                self.now_us += us;
                if self.key.take_if(|key| key.has_ended(self.now_us)).is_some() {
                    self.is_changed = true;
                }
            }
            Step::Theirs(who, verb) => self.theirs(*who, *verb),
        }
        self.judge()
    }

    fn action(&mut self, id: HolderId, verb: Verb) -> Action {
        let now_us = self.now_us;
        let away = |by: i64| now_us.saturating_add_signed(by);
        let request = Request::new(id, Mode::Exclusive, info(id, 1));
        match verb {
            Verb::End { closes, cooldown } => {
                Action::End(End::new(request).with_closes(closes).with_cooldown(cooldown))
            }
            Verb::Keep { ttl, describes } => {
                let token_us = match self.key.as_ref().map(|key| &key.value) {
                    Some(Value::Ours(hold)) => hold.token_us,
                    Some(Value::Theirs(_)) | None => now_us,
                };
                let description = describes.map(|(pid, by)| {
                    let token = FencingToken::from_micros(token_us.saturating_add_signed(by));
                    Box::new(Description::new(token, info(id, pid)))
                });
                Action::Keep(Keep::new(request, ttl).with_description(description))
            }
            Verb::Look => Action::Look { limit: 1 },
            Verb::Revoke { force } => Action::Revoke { id, force },
            Verb::Take { ttl, ballot, from } => {
                let from = from.map(|from| self.attempts.id(Who::Known(from)));
                let take = Take::new(request, ttl).with_ballot(ballot.map(away));
                Action::Take(take.with_from(from))
            }
        }
    }

    fn act(&mut self, action: Action) -> Result<Reply, String> {
        let before = self.key.clone();
        let mut step = lock::Step { key: &mut self.key, now_us: self.now_us, message: None };
        let reply = step.act(&action);
        let told = step.message.into_iter().collect();
        let is_theirs = |key: &Key| matches!(key.value, Value::Theirs(_));
        if before.as_ref().is_some_and(is_theirs) && before != self.key {
            return Err(format!("ours changed what is not ours: {before:?}"));
        }
        let before = std::mem::take(&mut self.is_changed).then_some(before);
        let (now_us, after) = (self.now_us, self.key.clone());
        let played = Played { before, action, now_us, reply: reply.clone(), told, after };
        played.believe(&mut self.ours, |_, until_us| until_us);
        self.played.push(played);
        Ok(reply)
    }

    fn theirs(&mut self, who: u8, verb: Their) {
        let value = match who {
            0 => Value::Theirs(String::new()),
            1 => Value::Theirs("leasehold-1 x".to_owned()),
            _ => Value::Theirs(format!("7c9e6679-7425-40de-944b-e07fc1f9{who:04}")),
        };
        let is_its_own = self.key.as_ref().is_some_and(|key| key.value == value);
        let before = self.key.clone();
        match verb {
            Their::Break => {
                self.key = None;
                self.ours.clear();
                self.theirs.clear();
            }
            Their::Extend { lease_ms } if is_its_own => self.put(who, value, lease_ms),
            Their::LetGo if is_its_own => {
                self.key = None;
                self.theirs.remove(&who);
            }
            Their::Persist => {
                if let Some(key) = &mut self.key {
                    key.end_ms = None;
                }
            }
            Their::Take { lease_ms } if self.key.is_none() => self.put(who, value, lease_ms),
            Their::Extend { .. } | Their::LetGo | Their::Take { .. } => {}
        }
        self.is_changed |= before != self.key;
    }

    fn put(&mut self, who: u8, value: Value, lease_ms: u64) {
        self.key = Some(Key { value, end_ms: Some(self.now_us / 1000 + lease_ms) });
        self.theirs.insert(who, self.now_us + lease_ms * 1000);
    }

    /// Checks that no client believes that it holds while another one does.
    fn judge(&self) -> Result<(), String> {
        let ours = self.ours.values();
        let lives = ours.chain(self.theirs.values()).filter(|until_us| **until_us > self.now_us);
        match lives.count() > 1 {
            true => Err(format!("two believe: {:?} {:?}", self.ours, self.theirs)),
            false => Ok(()),
        }
    }
}

/// How far a ballot may be ahead of the clock, in µs.
pub(crate) const LEAD_US: i64 = BALLOT_LEAD.as_micros() as i64;
