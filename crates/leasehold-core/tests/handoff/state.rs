//! One moment of the world, and the reactions of its clients.

use std::time::Duration;

use leasehold_core::model::{Hold, Record};
use leasehold_core::{Bounds, ClientId, Grant, HoldState, HolderId, Instant, Now, Reply, Sample};

use super::scenario::{Event, World};

/// The state of one moment.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    pub(super) time: u64,
    pub(super) record: Record,
    pub(super) clients: Vec<Client>,
    pub(super) requests: Vec<Request>,
    pub(super) messages: Vec<Told>,
    /// The clients that joined the queue, and those that the store granted, in order.
    pub(super) joined: Vec<u8>,
    pub(super) granted: Vec<u8>,
    pub(super) stops: u8,
    pub(super) cancels: u8,
    pub(super) losses: u8,
    pub(super) copies: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    pub(super) is_stopped: bool,
    pub(super) was_stopped: bool,
    pub(super) has_cancelled: bool,
    pub(super) asked_at: u64,
    /// When its newest reply was requested, and the store's time in that reply.
    pub(super) sample: Option<(u64, u64)>,
    /// Copies of its acquire without an answer.
    pub(super) unanswered: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// Its acquire was sent and not answered.
    Asking,
    /// Its release or cancel was answered.
    Ended,
    /// Its release or cancel was sent.
    Ending,
    /// The store has answered that it is not in the queue.
    Forgotten,
    /// It holds, and may rely on that before the second `until`.
    Holding {
        since: u64,
        until: u64,
        is_confirmed: bool,
    },
    Idle,
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) from: u8,
    pub(super) sent: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Acquire,
    Cancel { unanswered: bool },
    Poll,
    Release { unanswered: bool },
}

/// A message that a client was granted, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Told {
    pub(super) to: u8,
    pub(super) now_us: u64,
    pub(super) deadline_us: u64,
}

/// 2026-01-01T00:00Z, where token time begins.
pub(super) const WALL_US: u64 = 1_767_225_600_000_000;
/// Where lease time begins.
pub(super) const START_US: u64 = 1_000_000_000;
pub(super) fn id(client: u8) -> HolderId {
    HolderId { client: ClientId(client.into()), attempt: 1 }
}

pub(super) fn instant(second: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(second))
}

impl State {
    pub(super) fn now(&self) -> Now {
        let past_us = self.time * 1_000_000;
        Now { lease_us: START_US + past_us, token_us: WALL_US + past_us }
    }

    pub(super) fn send(&mut self, from: u8, kind: Kind) {
        self.requests.push(Request { from, sent: self.time, kind });
    }

    pub(super) fn poll(&mut self, from: u8) {
        if !self.requests.iter().any(|request| request.from == from && request.kind == Kind::Poll) {
            self.send(from, Kind::Poll);
        }
    }

    pub(super) fn believers(&self) -> usize {
        let believes = |client: &&Client| match client.phase {
            Phase::Holding { until, .. } => self.time < until,
            Phase::Asking | Phase::Ended | Phase::Ending | Phase::Forgotten => false,
            Phase::Idle | Phase::Waiting => false,
        };
        self.clients.iter().filter(believes).count()
    }

    pub(super) fn holds(&self, client: u8) -> bool {
        self.record.holds.iter().any(|hold| hold.id == id(client))
    }

    pub(super) fn has_confirmed(&self, client: u8) -> bool {
        let is_claimed = |hold: &Hold| hold.id == id(client) && hold.state == HoldState::Claimed;
        self.record.holds.iter().any(is_claimed)
    }

    pub(super) fn waits(&self, client: u8) -> bool {
        self.record.queue.values().any(|waiting| waiting.id == id(client))
    }

    /// Clients that have kept asking from the moment they began.
    pub(super) fn is_steady(&self, client: u8) -> bool {
        let client = &self.clients[usize::from(client)];
        !client.was_stopped && !client.has_cancelled
    }

    pub(super) fn numbered(&self) -> impl Iterator<Item = (u8, &Client)> {
        (0..).zip(&self.clients)
    }

    /// A second passes once everything is done that takes less than a second: each running client
    /// has its answers, and has released a lease that it has held for a second.
    pub(super) fn may_tick(&self) -> bool {
        let is_settled = |(number, client): (u8, &Client)| match client.phase {
            _ if client.is_stopped => true,
            Phase::Asking | Phase::Ending => false,
            Phase::Holding { since, .. } if since < self.time => false,
            Phase::Ended
            | Phase::Forgotten
            | Phase::Holding { .. }
            | Phase::Idle
            | Phase::Waiting => {
                let is_poll = |request: &Request| request.kind == Kind::Poll;
                !self.requests.iter().any(|request| request.from == number && is_poll(request))
            }
        };
        self.numbered().all(is_settled)
    }
}

impl State {
    pub(super) fn answer(&mut self, request: Request, reply: &Reply) {
        let (now_us, time) = (self.now().lease_us, self.time);
        let client = &mut self.clients[usize::from(request.from)];
        client.unanswered -= u8::from(request.kind == Kind::Acquire);
        if client.sample.is_none_or(|(sent, _)| sent <= request.sent) {
            client.sample = Some((request.sent, now_us));
        }
        let confirmed = |since: u64, grant: &Grant| Phase::Holding {
            since,
            until: request.sent + (grant.deadline_us - now_us) / 1_000_000,
            is_confirmed: true,
        };
        client.phase = match (client.phase, reply) {
            (Phase::Asking | Phase::Waiting, Reply::Granted(grant)) => confirmed(time, grant),
            (Phase::Holding { since, .. }, Reply::Granted(grant)) => confirmed(since, grant),
            (Phase::Asking | Phase::Waiting, Reply::Queued(_)) => Phase::Waiting,
            (Phase::Asking | Phase::Waiting, _) => Phase::Forgotten,
            (Phase::Ending, _) if request.kind != Kind::Acquire && request.kind != Kind::Poll => {
                Phase::Ended
            }
            (phase, _) => phase,
        };
    }

    /// A message arrives. If the client can believe it, it enters; it confirms in any case.
    pub(super) fn hear(&mut self, told: Told, checks: bool) {
        let now = instant(self.time);
        let client = &mut self.clients[usize::from(told.to)];
        let (Phase::Waiting, Some((sent, server_us))) = (client.phase, client.sample) else {
            return;
        };
        let newest = Sample { sent: instant(sent), server_us };
        let bounds = Bounds { drift: 0.0, margin: Duration::ZERO, offset: Duration::ZERO };
        let until = match checks {
            true => bounds.valid_by_message(newest, now, told.now_us, told.deadline_us),
            false => Some(now + Duration::from_micros(told.deadline_us - told.now_us)),
        };
        if let Some(until) = until {
            let until = until.since_origin().as_secs_f64().round() as u64;
            client.phase = Phase::Holding { since: self.time, until, is_confirmed: false };
        }
        self.poll(told.to);
    }

    pub(super) fn tick(&mut self, polls: bool) {
        self.time += 1;
        let oldest_us = self.now().lease_us - 2_000_000;
        self.messages.retain(|told| told.now_us >= oldest_us);
        let asks = |client: &Client| match client.phase {
            _ if client.is_stopped || !polls => false,
            Phase::Waiting | Phase::Holding { is_confirmed: false, .. } => true,
            Phase::Asking | Phase::Ended | Phase::Ending | Phase::Forgotten => false,
            Phase::Holding { .. } | Phase::Idle => false,
        };
        let asking: Vec<u8> =
            self.numbered().filter(|(_, client)| asks(client)).map(|(number, _)| number).collect();
        asking.into_iter().for_each(|number| self.poll(number));
    }

    pub(super) fn resume(&mut self, number: u8) {
        let client = &mut self.clients[usize::from(number)];
        client.is_stopped = false;
        match client.phase {
            Phase::Asking => {
                client.unanswered += 1;
                self.send(number, Kind::Acquire);
            }
            Phase::Waiting | Phase::Holding { is_confirmed: false, .. } => self.poll(number),
            Phase::Ended
            | Phase::Ending
            | Phase::Forgotten
            | Phase::Holding { .. }
            | Phase::Idle => {}
        }
    }

    pub(super) fn choices(&self, number: u8, world: &World, events: &mut Vec<Event>) {
        let client = &self.clients[usize::from(number)];
        if client.is_stopped {
            events.push(Event::Resume(number));
            return;
        }
        match client.phase {
            Phase::Idle if self.time <= 1 => events.push(Event::Begin(number)),
            Phase::Asking | Phase::Waiting => {
                if self.cancels > 0 {
                    events.push(Event::Cancel(number));
                }
                // A stop after the confirmation costs a lease, even if the client has not heard of
                // it.
                let is_waiter = client.phase == Phase::Waiting && !self.has_confirmed(number);
                if self.stops > 0 && (world.holders_stop || is_waiter) {
                    events.push(Event::Stop(number));
                }
                if self.copies > 0 && client.phase == Phase::Asking {
                    events.push(Event::Copy(number));
                }
            }
            Phase::Holding { .. } => {
                events.push(Event::Leave(number));
                if self.stops > 0 && world.holders_stop {
                    events.push(Event::Stop(number));
                }
            }
            Phase::Ended | Phase::Ending | Phase::Forgotten | Phase::Idle => {}
        }
    }
}
