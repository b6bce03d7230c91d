//! One store with one name, driven step by step.

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{
    Action, Description, End, FencingToken, Grant, HolderInfo, Keep, Message, Mode, Now, Place,
    Reply, Request, Status, Take,
};

use super::state::{id, span};

pub(super) const START_MS: u64 = 1_000_000;
pub(super) const TTL_MS: u64 = 30_000;

/// A record, its counter, and the time.
pub(super) struct Store {
    pub(super) record: Record,
    pub(super) counter: u64,
    pub(super) now_ms: u64,
    pub(super) rules: Rules,
}

pub(super) fn request(client: u8, mode: Mode) -> Request {
    Request::new(id(client), mode, HolderInfo::default())
}

/// A request that waits.
pub(super) fn take(client: u8, mode: Mode) -> Take {
    Take::new(request(client, mode), span(TTL_MS)).with_waits(true)
}

pub(super) fn keep(client: u8) -> Keep {
    Keep::new(request(client, Mode::Exclusive), span(TTL_MS))
}

pub(super) fn end(client: u8) -> End {
    End::new(request(client, Mode::Exclusive))
}

pub(super) fn described(token: u64, info: HolderInfo) -> Option<Box<Description>> {
    Some(Box::new(Description::new(FencingToken::from_micros(token), info)))
}

pub(super) fn granted(token: u64) -> Reply {
    Reply::Granted(Grant::new(FencingToken::from_micros(token)))
}

pub(super) fn token(reply: &Reply) -> u64 {
    let Reply::Granted(grant) = reply else { panic!("{reply:?}") };
    grant.token.micros()
}

pub(super) fn place(reply: &Reply) -> Place {
    let Reply::Queued(place) = reply else { panic!("{reply:?}") };
    *place
}

impl Store {
    pub(super) fn new() -> Self {
        let record = Record::default();
        Self { record, counter: 0, now_ms: START_MS, rules: Rules::USUAL }
    }

    /// A store at which client 1 holds the lock.
    pub(super) fn held() -> Self {
        let mut store = Self::new();
        token(&store.take(1, Mode::Exclusive));
        store
    }

    pub(super) fn now(&self) -> Now {
        let now_us = self.now_ms * 1_000;
        Now { lease_us: now_us, token_us: TOKEN_EPOCH_US + now_us }
    }

    /// Returns the reply, and the clients that are granted the name and do not know it yet.
    pub(super) fn step(&mut self, action: &Action) -> (Reply, Vec<u8>) {
        let now = self.now();
        let outcome = model::step(&mut self.record, &mut self.counter, now, self.rules, action);
        let told = outcome.messages.iter().filter_map(|(client, message)| match message {
            Message::Granted { .. } => Some(client.0 as u8),
            Message::Gap | Message::Revoked { .. } => None,
            _ => panic!("{message:?}"),
        });
        (outcome.reply, told.collect())
    }

    pub(super) fn ask(&mut self, take: Take) -> Reply {
        self.step(&Action::Take(take)).0
    }

    pub(super) fn take(&mut self, client: u8, mode: Mode) -> Reply {
        self.ask(take(client, mode))
    }

    pub(super) fn attempt(&mut self, client: u8, mode: Mode) -> Reply {
        self.ask(take(client, mode).with_waits(false))
    }

    pub(super) fn keep(&mut self, client: u8) -> Reply {
        self.step(&Action::Keep(keep(client))).0
    }

    pub(super) fn end(&mut self, client: u8) -> Vec<u8> {
        self.step(&Action::End(end(client))).1
    }

    pub(super) fn revoke(&mut self, client: u8, force: bool) -> Reply {
        self.step(&Action::Revoke { id: id(client), force }).0
    }

    pub(super) fn look(&mut self) -> Status {
        let (Reply::Status(status), _) = self.step(&Action::Look { limit: 9 }) else { panic!() };
        *status
    }

    pub(super) fn after(&mut self, passed_ms: u64) -> &mut Self {
        self.now_ms += passed_ms;
        self
    }
}

pub(super) fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted(_))
}

pub(super) fn is_queued(reply: &Reply) -> bool {
    matches!(reply, Reply::Queued(_))
}

pub(super) fn busy(ms: u64) -> Reply {
    Reply::Busy { retry_after: span(ms) }
}
