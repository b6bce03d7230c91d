//! One moment of the world, and the actions of a line in it.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::model::Record;
use leasehold_core::{
    Bounds, ClientId, FencingToken, Grant, HolderId, Instant, Now, Reply, Sample,
};

use super::scenario::{Event, Protection, World};

/// For how many seconds a lease is passed from caller to caller.
const SLICE: u64 = 1;

/// The state of one moment.
#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct State {
    pub(super) time: u64,
    pub(super) record: Record,
    pub(super) lines: [Line; 2],
    pub(super) requests: Vec<Request>,
    pub(super) messages: Vec<Told>,
    /// The last token of a guard, and whether a token was not above the one before.
    pub(super) last: u64,
    pub(super) has_regressed: bool,
    /// Attempts that their line has ended, as the store has confirmed.
    pub(super) ended: BTreeSet<(u8, u8)>,
    pub(super) drops: u8,
    pub(super) stops: u8,
    pub(super) losses: u8,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(super) struct Line {
    pub(super) head: Head,
    /// The callers behind, in order.
    pub(super) behind: Vec<u8>,
    pub(super) callers: [Caller; 2],
    /// How many attempts it has drawn.
    pub(super) attempts: u8,
    pub(super) is_stopped: bool,
    pub(super) was_stopped: bool,
    /// When its newest reply was requested, and the store's time in that reply.
    pub(super) sample: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    /// How often the caller will come.
    pub(super) visits: u8,
    /// Since when the caller wants the lock without having it.
    pub(super) asked_at: Option<u64>,
}

/// The state of the head of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Head {
    Asking {
        front: u8,
        attempt: u8,
        is_queued: bool,
        /// Copies of its acquire without an answer.
        unanswered: u8,
    },
    /// No caller of the line holds or asks.
    Empty,
    /// The store does not know its attempt.
    Forgotten,
    Held(Lease),
}

/// A lease of a caller, which the caller may rely on before the second `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lease {
    pub(super) holder: u8,
    pub(super) since: u64,
    pub(super) attempt: u8,
    pub(super) grant: FencingToken,
    pub(super) passes: u16,
    pub(super) until: u64,
    pub(super) slice_until: u64,
    pub(super) is_confirmed: bool,
    pub(super) unanswered: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) from: u8,
    pub(super) attempt: u8,
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

/// A message that an attempt was granted, on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Told {
    pub(super) to: u8,
    pub(super) attempt: u8,
    pub(super) token: FencingToken,
    pub(super) now_us: u64,
    pub(super) deadline_us: u64,
}

/// 2026-01-01T00:00Z, where token time begins.
const WALL_US: u64 = 1_767_225_600_000_000;
/// Where lease time begins.
pub(super) const START_US: u64 = 1_000_000_000;

pub(super) fn id(line: u8, attempt: u8) -> HolderId {
    HolderId { client: ClientId(line.into()), attempt: attempt.into() }
}

fn instant(second: u64) -> Instant {
    Instant::from_origin(Duration::from_secs(second))
}

impl State {
    pub(super) fn now(&self) -> Now {
        let past_us = self.time * 1_000_000;
        Now { lease_us: START_US + past_us, token_us: WALL_US + past_us }
    }

    pub(super) fn line(&mut self, line: u8) -> &mut Line {
        &mut self.lines[usize::from(line)]
    }

    fn send(&mut self, from: u8, attempt: u8, kind: Kind) {
        self.requests.push(Request { from, attempt, sent: self.time, kind });
    }

    pub(super) fn poll(&mut self, from: u8, attempt: u8) {
        let is_poll = |request: &Request| request.from == from && request.kind == Kind::Poll;
        if !self.requests.iter().any(is_poll) {
            self.send(from, attempt, Kind::Poll);
        }
    }

    pub(super) fn believers(&self) -> usize {
        let believes = |line: &&Line| match line.head {
            Head::Held(lease) => self.time < lease.until,
            Head::Asking { .. } | Head::Empty | Head::Forgotten => false,
        };
        self.lines.iter().filter(believes).count()
    }

    pub(super) fn is_known(&self, line: u8, attempt: u8) -> bool {
        let id = id(line, attempt);
        let is_held = self.record.holds.iter().any(|hold| hold.id == id);
        is_held || self.record.queue.values().any(|waiting| waiting.id == id)
    }

    // ---- a line

    /// A caller becomes the first of its line, and asks with its own attempt.
    fn ask(&mut self, number: u8, front: u8, attempt: Option<u8>) {
        let line = self.line(number);
        let attempt = attempt.unwrap_or(line.attempts + 1);
        line.attempts = line.attempts.max(attempt);
        line.head = Head::Asking { front, attempt, is_queued: false, unanswered: 1 };
        self.send(number, attempt, Kind::Acquire);
    }

    pub(super) fn begin(&mut self, number: u8, caller: u8) {
        let time = self.time;
        let line = self.line(number);
        let own = &mut line.callers[usize::from(caller)];
        (own.visits, own.asked_at) = (own.visits - 1, Some(time));
        if line.head == Head::Empty {
            self.ask(number, caller, None);
        } else {
            line.behind.push(caller);
        }
    }

    /// A caller's future is dropped: the next caller continues its attempt, and asks again if no
    /// answer came.
    pub(super) fn drop(&mut self, number: u8, caller: u8, world: &World) {
        let line = self.line(number);
        line.callers[usize::from(caller)].asked_at = None;
        line.behind.retain(|other| *other != caller);
        let Head::Asking { front, attempt, is_queued, unanswered } = line.head else { return };
        if front != caller {
            return;
        }
        if !line.behind.is_empty() && world.has(Protection::TakeOver) {
            let front = line.behind.remove(0);
            let copies = unanswered + u8::from(!is_queued);
            line.head = Head::Asking { front, attempt, is_queued, unanswered: copies };
            if !is_queued {
                self.send(number, attempt, Kind::Acquire);
            }
            return;
        }
        line.head = Head::Empty;
        self.requests.retain(|r| (r.from, r.kind) != (number, Kind::Poll));
        if world.has(Protection::Cancel) {
            self.send(number, attempt, Kind::Cancel { unanswered: unanswered > 0 });
        } else {
            self.ended.insert((number, attempt));
        }
    }

    /// The holder releases: to the next in line while the slice lasts, otherwise to the store. Then
    /// the next caller asks the store anew.
    pub(super) fn let_go(&mut self, number: u8, world: &World) {
        let time = self.time;
        let line = self.line(number);
        let Head::Held(mut lease) = line.head else { return };
        let is_held = time < lease.until;
        let in_slice = time < lease.slice_until;
        if is_held && in_slice && !line.behind.is_empty() {
            lease.holder = line.behind.remove(0);
            (lease.since, lease.passes) = (time, lease.passes + 1);
            if !world.has(Protection::Validity) {
                lease.until = u64::MAX;
            }
            return self.enter(number, lease, world);
        }
        let next = (!line.behind.is_empty()).then(|| line.behind.remove(0));
        line.head = Head::Empty;
        self.requests.retain(|r| (r.from, r.kind) != (number, Kind::Poll));
        // A lost lease ends by itself.
        if is_held && (next.is_none() || world.has(Protection::Release)) {
            let unanswered = lease.unanswered > 0;
            self.send(number, lease.attempt, Kind::Release { unanswered });
        }
        if let Some(next) = next {
            let same = (!world.has(Protection::NewAttempt)).then_some(lease.attempt);
            self.ask(number, next, same);
        }
    }

    /// A caller gets a guard with its own token.
    fn enter(&mut self, number: u8, lease: Lease, world: &World) {
        let passes = if world.has(Protection::Tokens) { lease.passes } else { 0 };
        let token = lease.grant.passed_on(passes).map_or(0, FencingToken::get);
        self.has_regressed |= token <= self.last;
        self.last = token;
        let line = self.line(number);
        line.callers[usize::from(lease.holder)].asked_at = None;
        line.head = Head::Held(lease);
    }

    // ---- what it is told

    pub(super) fn answer(&mut self, request: Request, reply: &Reply, world: &World) {
        let Request { from, attempt, sent, kind } = request;
        let (now_us, time) = (self.now().lease_us, self.time);
        if let Kind::Cancel { .. } | Kind::Release { .. } = kind {
            self.ended.insert((from, attempt));
        }
        let line = self.line(from);
        if line.sample.is_none_or(|(before, _)| before <= sent) {
            line.sample = Some((sent, now_us));
        }
        let until = |grant: &Grant| sent + (grant.deadline_us - now_us) / 1_000_000;
        match &mut line.head {
            Head::Asking { front, attempt: own, is_queued, unanswered } if *own == attempt => {
                *unanswered = unanswered.saturating_sub(u8::from(kind == Kind::Acquire));
                match (reply, kind) {
                    (_, Kind::Cancel { .. } | Kind::Release { .. }) => {}
                    (Reply::Granted(grant), _) => {
                        let lease = Lease {
                            holder: *front,
                            since: time,
                            attempt,
                            grant: grant.token,
                            passes: 0,
                            until: until(grant),
                            slice_until: time + SLICE,
                            is_confirmed: true,
                            unanswered: *unanswered,
                        };
                        self.enter(from, lease, world);
                    }
                    (Reply::Queued(_), _) => *is_queued = true,
                    (_, Kind::Acquire | Kind::Poll) => line.head = Head::Forgotten,
                }
            }
            Head::Held(lease) if lease.attempt == attempt => {
                lease.unanswered -= u8::from(kind == Kind::Acquire && lease.unanswered > 0);
                if let Reply::Granted(grant) = reply {
                    (lease.is_confirmed, lease.until) = (true, lease.until.max(until(grant)));
                }
            }
            Head::Asking { .. } | Head::Empty | Head::Forgotten | Head::Held(_) => {}
        }
    }

    /// An answer was lost: the executed copy counts as one that may still arrive.
    pub(super) fn unanswered(&mut self, request: Request) {
        if let Head::Asking { attempt, unanswered, .. } = &mut self.line(request.from).head
            && (*attempt, Kind::Acquire) == (request.attempt, request.kind)
        {
            *unanswered += 1;
        }
    }

    /// A message arrives. If the caller can believe it, it enters; it confirms in any case.
    pub(super) fn hear(&mut self, told: Told, world: &World) {
        let (now, time) = (instant(self.time), self.time);
        let line = self.line(told.to);
        let Head::Asking { front, attempt, is_queued: true, unanswered } = line.head else {
            return;
        };
        let Some((sent, server_us)) = line.sample.filter(|_| attempt == told.attempt) else {
            return;
        };
        let newest = Sample { sent: instant(sent), server_us };
        let bounds = Bounds { drift: 0.0, margin: Duration::ZERO, offset: Duration::ZERO };
        let until = bounds.valid_by_message(newest, now, told.now_us, told.deadline_us);
        if let Some(until) = until {
            let lease = Lease {
                holder: front,
                since: time,
                attempt,
                grant: told.token,
                passes: 0,
                until: until.since_origin().as_secs_f64().round() as u64,
                slice_until: time + SLICE,
                is_confirmed: false,
                unanswered,
            };
            self.enter(told.to, lease, world);
        }
        self.poll(told.to, attempt);
    }

    // ---- time

    /// A second passes once everything is done that takes less than a second: each running client
    /// has its answers, and has released a lease that it has held for a second.
    pub(super) fn may_tick(&self) -> bool {
        (0..).zip(&self.lines).all(|(number, line)| {
            if line.is_stopped {
                return true;
            }
            let is_settled = match line.head {
                Head::Asking { is_queued, .. } => is_queued,
                Head::Held(lease) => lease.since == self.time,
                Head::Empty | Head::Forgotten => true,
            };
            let mut own = self.requests.iter().filter(|request| request.from == number);
            is_settled && own.all(|request| request.kind == Kind::Acquire)
        })
    }

    pub(super) fn tick(&mut self) {
        self.time += 1;
        let oldest_us = self.now().lease_us - 2_000_000;
        self.messages.retain(|told| told.now_us >= oldest_us);
        for number in 0..2 {
            if !self.lines[usize::from(number)].is_stopped {
                self.ask_again(number);
            }
        }
    }

    fn ask_again(&mut self, number: u8) {
        match self.line(number).head {
            Head::Asking { attempt, is_queued: true, .. } => self.poll(number, attempt),
            Head::Held(lease) if !lease.is_confirmed => self.poll(number, lease.attempt),
            Head::Asking { .. } | Head::Empty | Head::Forgotten | Head::Held(_) => {}
        }
    }

    pub(super) fn resume(&mut self, number: u8) {
        let line = self.line(number);
        line.is_stopped = false;
        if let Head::Asking { attempt, is_queued: false, unanswered, .. } = &mut line.head {
            *unanswered += 1;
            let attempt = *attempt;
            self.send(number, attempt, Kind::Acquire);
        }
        self.ask_again(number);
    }

    pub(super) fn choices(&self, number: u8, events: &mut Vec<Event>) {
        let line = &self.lines[usize::from(number)];
        if line.is_stopped {
            events.push(Event::Resume(number));
            return;
        }
        for (caller, own) in (0..).zip(&line.callers) {
            let is_holder = matches!(line.head, Head::Held(lease) if lease.holder == caller);
            match own.asked_at {
                None if own.visits > 0 && !is_holder => events.push(Event::Begin(number, caller)),
                Some(_) if self.drops > 0 => events.push(Event::Drop(number, caller)),
                None | Some(_) => {}
            }
        }
        if let Head::Held(_) = line.head {
            events.push(Event::LetGo(number));
        }
        if self.stops > 0 && !matches!(line.head, Head::Empty) {
            events.push(Event::Stop(number));
        }
    }
}
