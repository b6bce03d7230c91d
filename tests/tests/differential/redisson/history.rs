//! Random histories of a lock that both languages want, their results, and a check that no promise
//! is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    Action, Description, End, FencingToken, HolderId, Keep, Mode, Reply, Request, Take,
};

use super::ours::{self, Told};
use super::record::{self, Record, writer};
use crate::attempts::{self, Attempts, START_US, Who, info};

#[derive(Clone, Debug)]
pub(crate) struct History {
    /// The index of the name.
    pub(crate) name: usize,
    /// Tokens are counted. Without readers, Java has an `RFencedLock`.
    pub(crate) fenced: bool,
    /// Java has an `RReadWriteLock`, otherwise an `RLock`. These do not exclude each other.
    pub(crate) shared: bool,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The last action of ours once more.
    Again,
    Ours(Who, Verb),
    /// The clock goes on, in µs.
    Pass(u64),
    /// A thread of a JVM does something, perhaps to its read lock.
    Theirs {
        thread: u8,
        reads: bool,
        verb: Their,
    },
}

/// An action of ours, without its attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verb {
    Adopt { from: usize, ttl: Duration, other_mode: bool },
    End { cooldown: Duration, closes: bool },
    Keep { ttl: Duration, describes: Option<u32> },
    Revoke { force: bool },
    Take { reads: bool, ttl: Duration },
}

/// The actions of Java.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Their {
    Force,
    Lock {
        lease_ms: u64,
    },
    /// A renewal by the watchdog.
    Renew,
    Unlock,
}

/// `lockWatchdogTimeout`, in ms.
const WATCHDOG_MS: u64 = 30_000;

pub(crate) type Played = attempts::Played<Record, Told>;

/// Until when a client believes that it holds, and whether alone.
#[derive(Clone, Copy, Debug)]
struct Promise {
    until_us: u64,
    alone: bool,
}

#[derive(Default)]
struct Player {
    record: Record,
    now_us: u64,
    is_changed: bool,
    attempts: Attempts,
    ours: BTreeMap<HolderId, Promise>,
    theirs: BTreeMap<String, Promise>,
    last_token: Option<FencingToken>,
    played: Vec<Played>,
}

/// The result of a history, or the promise that is broken.
pub(crate) fn play(history: &History) -> Result<Vec<Played>, String> {
    let mut player = Player { now_us: START_US, is_changed: true, ..Player::default() };
    for (number, step) in history.steps.iter().enumerate() {
        player.step(history, step).map_err(|what| format!("step {number}, {step:?}: {what}"))?;
    }
    Ok(player.played)
}

impl Player {
    fn step(&mut self, history: &History, step: &Step) -> Result<(), String> {
        match step {
            Step::Again => {
                let Some(last) = self.played.last().cloned() else { return Ok(()) };
                let still_is_so = !self.is_changed;
                let again = self.act(history, last.action.clone())?;
                if still_is_so {
                    last.check_copy(&again)?;
                }
            }
            Step::Ours(who, verb) => {
                let id = self.attempts.id(*who);
                let action = self.action(id, *verb);
                self.act(history, action)?;
            }
            Step::Pass(us) => {
                self.now_us += us;
                let before = self.record.clone();
                self.record.collect(self.now_us / 1000);
                self.is_changed |= before != self.record;
            }
            Step::Theirs { thread, reads, verb } => {
                self.theirs(history, *thread, *reads && history.shared, *verb);
            }
        }
        self.judge()
    }

    fn action(&mut self, id: HolderId, verb: Verb) -> Action {
        let mode = |reads| if reads { Mode::Shared } else { Mode::Exclusive };
        let request = |mode, pid| Request::new(id, mode, info(id, pid));
        // The mode of a hold is that of its field.
        let own = mode(!self.record.owners.contains_key(&writer(&ours::owner(id))));
        match verb {
            Verb::Adopt { from, ttl, other_mode } => {
                let from = self.attempts.id(Who::Known(from));
                let writes =
                    self.record.owners.contains_key(&writer(&ours::owner(from))) != other_mode;
                Action::Take(Take::new(request(mode(!writes), 2), ttl).with_from(Some(from)))
            }
            Verb::End { cooldown, closes } => {
                let end = End::new(request(own, 1)).with_cooldown(cooldown);
                Action::End(end.with_closes(closes))
            }
            Verb::Keep { ttl, describes } => {
                let token = FencingToken::from_micros(self.now_us);
                let description = describes.map(|pid| Description::new(token, info(id, pid)));
                // A reader is refused a longer ttl.
                let ttl = if own == Mode::Shared { ttl.min(Duration::from_secs(30)) } else { ttl };
                let keep = Keep::new(request(own, 1), ttl);
                Action::Keep(keep.with_description(description.map(Box::new)))
            }
            Verb::Revoke { force } => Action::Revoke { id, force },
            Verb::Take { reads, ttl } => Action::Take(Take::new(request(mode(reads), 1), ttl)),
        }
    }

    fn act(&mut self, history: &History, action: Action) -> Result<Reply, String> {
        let before = std::mem::take(&mut self.is_changed).then(|| self.record.clone());
        let (now_us, told) = (self.now_us, Vec::new());
        let fenced = history.fenced;
        let counted = self.record.counter;
        let mut step = ours::Step { record: &mut self.record, now_us, fenced, told };
        let reply = step.act(&action);
        let told = step.told;
        let after = self.record.clone();
        let played = Played { before, action, now_us, reply: reply.clone(), told, after };
        let is_alone = |id| self.record.owners.contains_key(&writer(&ours::owner(id)));
        let promise = |id, until_us| Promise { until_us, alone: is_alone(id) };
        played.believe(&mut self.ours, promise);
        if let Reply::Granted(grant) = &reply
            && self.record.counter > counted
        {
            if self.last_token >= Some(grant.token) {
                return Err("a token does not grow".to_owned());
            }
            self.last_token = Some(grant.token);
        }
        for (owner, promise) in &self.theirs {
            let end_ms = their_end_ms(&self.record, owner);
            if promise.until_us > now_us && end_ms.is_none_or(|end| end * 1000 < promise.until_us) {
                return Err(format!("ours cut {owner} short: {promise:?} {:?}", self.record));
            }
        }
        self.played.push(played);
        Ok(reply)
    }

    fn theirs(&mut self, history: &History, thread: u8, reads: bool, verb: Their) {
        let owner = format!("0d4c1ff9-5b3e-4b7e-9d7e-1c2f3a4b5c6d:{thread}");
        let (record, now_ms) = (&mut self.record, self.now_us / 1000);
        let watchdog_ms = now_ms + WATCHDOG_MS;
        let before = record.clone();
        match (verb, history.shared) {
            (Their::Force, false) => record.force_unlock(None),
            (Their::Force, true) if reads => record.force_unlock(Some(record::Mode::Read)),
            (Their::Force, true) => record.force_unlock(Some(record::Mode::Write)),
            (Their::Lock { lease_ms }, false) => {
                record.lock(&owner, now_ms + lease_ms, history.fenced);
            }
            (Their::Lock { lease_ms }, true) if reads => {
                record.read_lock(&owner, now_ms + lease_ms.min(WATCHDOG_MS));
            }
            (Their::Lock { lease_ms }, true) => {
                record.write_lock(&owner, now_ms, now_ms + lease_ms);
            }
            (Their::Renew, false) => record.renew(&owner, watchdog_ms),
            (Their::Renew, true) if reads => record.renew_reader(&owner, watchdog_ms),
            (Their::Renew, true) => record.renew(&writer(&owner), watchdog_ms),
            (Their::Unlock, false) => record.unlock(&owner, watchdog_ms),
            (Their::Unlock, true) if reads => drop(record.read_unlock(&owner)),
            (Their::Unlock, true) => drop(record.write_unlock(&owner, watchdog_ms)),
        }
        self.is_changed |= before != self.record;
        if matches!(verb, Their::Force) && !before.is_free() && self.record.is_free() {
            self.ours.clear();
        }
        let record = &self.record;
        let promise = |field: &String| {
            let until_us = their_end_ms(record, field)? * 1000;
            let alone = record.mode.is_none() || field.ends_with(":write");
            Some((field.clone(), Promise { until_us, alone }))
        };
        let is_theirs = |field: &&String| field.starts_with("0d4c1ff9");
        self.theirs = record.owners.keys().filter(is_theirs).filter_map(promise).collect();
    }

    /// Checks that no client of ours believes that it holds while a client that it excludes does.
    fn judge(&self) -> Result<(), String> {
        let lives = |promise: &&Promise| promise.until_us > self.now_us;
        let ours: Vec<_> = self.ours.values().filter(lives).collect();
        let theirs: Vec<_> = self.theirs.values().filter(lives).collect();
        let is_alone = |promise: &&&Promise| promise.alone;
        let alone = ours.iter().filter(is_alone).count();
        let theirs_alone = theirs.iter().filter(is_alone).count();
        let is_betrayed =
            alone > 0 && ours.len() + theirs.len() > 1 || theirs_alone > 0 && !ours.is_empty();
        match is_betrayed {
            true => Err(format!("two believe: {:?} {:?}", self.ours, self.theirs)),
            false => Ok(()),
        }
    }
}

/// When the hold of one of Redisson's fields ends, if the field exists.
fn their_end_ms(record: &Record, field: &str) -> Option<u64> {
    let count = *record.owners.get(field)?;
    if record.mode.is_none() || field.ends_with(":write") {
        return Some(record.end_ms);
    }
    let entry = |number| record.entries.get(&(field.to_owned(), number));
    let last_ms = (1..=count).filter_map(entry).map(|entry| entry.end_ms).max()?;
    Some(last_ms.min(record.end_ms))
}
