//! Tests of the model: a bench with a record and a clock, scenarios by theme, and invariants.

mod adopting;
mod applying;
mod ballots;
mod bytes;
mod events;
mod held_back;
mod invariants;
mod leaving;
mod modes;
mod quarantine;
mod records;
mod sound;
mod taking;
mod time;

use std::time::Duration;

use super::*;
use crate::holder::{HoldState, HolderId, HolderInfo, LOCK_CAPACITY, Mode, PassedOn};
use crate::request::{Acquire, Addressed, Adopt, Grant, Message, Place, Reclaim, Refusal};
use crate::time::micros;
use crate::token::FencingToken;

/// The ttl of every hold for which a test does not set another one.
const TTL: Duration = Duration::from_secs(30);

/// The lease time at the start of a test: not zero, so that a clock can go back.
const START_US: u64 = 1_000_000_000;

/// The token time at the start of a test: 2026-01-01T00:00Z.
const WALL_US: u64 = 1_767_225_600_000_000;

/// One record, one clock, and a method per action.
struct Bench {
    record: Record,
    rules: Rules,
    now_us: u64,
    /// The messages of the last step.
    messages: Vec<Addressed>,
    /// Whether the last step left more to do.
    more: bool,
}

/// The attempt `attempt` of client `client`.
fn id(client: u128, attempt: u64) -> HolderId {
    HolderId { client: ClientId(client), attempt }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

impl Bench {
    fn new() -> Self {
        Self {
            record: Record::default(),
            rules: Rules::new(),
            now_us: START_US,
            messages: Vec::new(),
            more: false,
        }
    }

    /// A bench on which client 1 holds the lock in the exclusive mode.
    fn held() -> Self {
        let mut bench = Self::new();
        bench.take(id(1, 1), Mode::Exclusive);
        bench
    }

    fn now(&self) -> Now {
        Now { lease_us: self.now_us, token_us: WALL_US + self.now_us }
    }

    fn pass(&mut self, span: Duration) {
        self.now_us += micros(span);
    }

    fn act(&mut self, action: &Action) -> Reply {
        let now = self.now();
        let outcome = step(&mut self.record, now, self.rules, action);
        (self.messages, self.more) = (outcome.messages, outcome.more);
        outcome.reply
    }

    fn request(&self, id: HolderId, mode: Mode) -> Acquire {
        Acquire {
            id,
            mode,
            ttl: TTL,
            wait: true,
            nonce: id.attempt + 1000,
            not_after_us: self.now_us + micros(NOT_AFTER),
            ballot_us: None,
            remember: Duration::ZERO,
            info: HolderInfo::default(),
        }
    }

    /// Acquires, and waits if necessary.
    fn acquire(&mut self, id: HolderId, mode: Mode) -> Reply {
        let request = self.request(id, mode);
        self.act(&Action::Acquire(request))
    }

    /// Acquires, or replies that it is busy.
    fn try_acquire(&mut self, id: HolderId, mode: Mode) -> Reply {
        let request = Acquire { wait: false, ..self.request(id, mode) };
        self.act(&Action::Acquire(request))
    }

    /// Acquires a mode that is free.
    fn take(&mut self, id: HolderId, mode: Mode) -> Grant {
        granted(self.acquire(id, mode))
    }

    /// Joins the queue.
    fn wait(&mut self, id: HolderId, mode: Mode) -> Place {
        match self.acquire(id, mode) {
            Reply::Queued(place) => place,
            other => panic!("{id} should wait: {other:?}"),
        }
    }

    /// The request to adopt the lease of `from` as it is now.
    fn adoption(&self, id: HolderId, from: HolderId) -> Adopt {
        let hold = self.hold(from).unwrap();
        let request = self.request(id, hold.mode(self.record.capacity));
        Adopt::new(from, Some(FencingToken::from_micros(hold.token_us)), request)
    }

    fn poll(&mut self, id: HolderId) -> Reply {
        self.act(&Action::Poll { id, ttl: TTL })
    }

    fn release(&mut self, id: HolderId) -> Reply {
        self.act(&Action::Release { id, cooldown: Duration::ZERO, unanswered: false })
    }

    fn renew(&mut self, id: HolderId, ttl: Duration) -> Reply {
        self.act(&Action::Renew { id, ttl })
    }

    fn cancel(&mut self, id: HolderId) -> Reply {
        self.act(&Action::Cancel { id, unanswered: false })
    }

    fn revoke(&mut self, id: HolderId, token: FencingToken, force: bool) -> Reply {
        self.act(&Action::Revoke { id, token, force })
    }

    fn reap(&mut self, client: u128) {
        let now = self.now();
        let outcome = reap(&mut self.record, now, self.rules, ClientId(client));
        (self.messages, self.more) = (outcome.messages, outcome.more);
    }

    fn hold(&self, id: HolderId) -> Option<&Hold> {
        self.record.holds.iter().find(|hold| hold.id == id)
    }

    /// The holders, in the order of their tokens.
    fn holders(&self) -> Vec<HolderId> {
        let mut holds: Vec<_> = self.record.holds.iter().collect();
        holds.sort_by_key(|hold| hold.token_us);
        holds.iter().map(|hold| hold.id).collect()
    }

    /// The waiters to which the last step sent a grant.
    fn told(&self) -> Vec<HolderId> {
        let told = self.messages.iter().filter_map(|(client, message)| match *message {
            Message::Granted { attempt, .. } => Some(HolderId { client: *client, attempt }),
            Message::Gap | Message::Revoked { .. } => None,
        });
        told.collect()
    }
}

/// The grant in a reply that must be one.
fn granted(reply: Reply) -> Grant {
    match reply {
        Reply::Granted(grant) => grant,
        other => panic!("this should be a grant: {other:?}"),
    }
}

fn permits(count: u32, capacity: u32) -> Mode {
    Mode::Permits { count, capacity }
}
