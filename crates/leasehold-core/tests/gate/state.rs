//! One moment of the world, and what its clients do.

use std::time::Duration;

use leasehold_core::model::{Record, State as GateState};
use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{ClientId, HolderId, HolderInfo, Mode, Now, Reply};

use super::scenario::{Rule, World};

/// The time of every moment: all other times are moved with it, so that moments are equal if the
/// same can happen from there.
pub(super) const NOW: u64 = 100;

/// The number from which tokens and places are counted.
pub(super) const FIRST: u64 = TOKEN_EPOCH_US;

/// How much older a time can be without a difference.
const OLDEST: u64 = NOW - 4;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) record: Record,
    pub(super) counter: u64,
    pub(super) clients: Vec<Client>,
    /// What is under way to the store. One connection keeps its order.
    pub(super) requests: Vec<Request>,
    pub(super) messages: Vec<Message>,
    /// The highest token that was granted to each client.
    pub(super) granted: Vec<u64>,
    pub(super) deaths: u8,
    pub(super) reconnects: u8,
    pub(super) revokes: u8,
    /// Whether a grant was not above an earlier one.
    pub(super) has_regressed: bool,
    /// Whether a newcomer was granted the name before a waiter that lives.
    pub(super) has_overtaken: bool,
    /// Whether an attempt was granted, or queued, soon after its end.
    pub(super) has_returned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Client {
    pub(super) phase: Phase,
    /// How many connections it has given up.
    pub(super) connection: u8,
    /// Whether a request on a connection that was given up may ask for the name.
    pub(super) is_unanswered: bool,
    /// Its request that has no answer.
    pub(super) open: Option<Kind>,
    pub(super) place: Option<u64>,
    /// When it asks again.
    pub(super) ask_at: u64,
    pub(super) has_kept: bool,
    /// What the store was told about its hold.
    pub(super) described: Option<u64>,
    /// Until when copies of its requests find that it has ended, if the store has heard of the end.
    pub(super) closed_until: u64,
    /// Whether an operator has ended its hold by force.
    pub(super) is_revoked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Asking,
    Dead,
    Done,
    Ending,
    /// It may rely on its lease before `until`.
    Holding {
        token: u64,
        until: u64,
        is_claimed: bool,
    },
    Idle,
    Waiting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Request {
    pub(super) from: u8,
    pub(super) connection: u8,
    pub(super) sent: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Ends an attempt by one command.
    Delete {
        described: Option<u64>,
    },
    End {
        closes: bool,
    },
    Keep {
        description: Option<u64>,
    },
    /// Asks for the name by one command.
    Set,
    Take,
}

impl Kind {
    pub(super) fn asks(self) -> bool {
        matches!(self, Self::Set | Self::Take)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) to: u8,
    pub(super) token: u64,
    pub(super) granted_at: u64,
}

pub(super) fn id(client: u8) -> HolderId {
    HolderId { client: ClientId(u128::from(client)), attempt: 1 }
}

/// What every request of a client says about it.
pub(super) fn request(client: u8) -> leasehold_core::Request {
    leasehold_core::Request::new(id(client), Mode::Exclusive, HolderInfo::default())
}

pub(super) fn span(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn millis(span: Duration) -> u64 {
    span.as_millis() as u64
}

pub(super) fn number(id: HolderId) -> u8 {
    id.client.0 as u8
}

/// The clock of tokens stands still, so that tokens are small numbers.
pub(super) fn now() -> Now {
    Now { lease_us: NOW * 1_000, token_us: 0 }
}

impl State {
    pub(super) fn first(world: &World) -> Self {
        let idle = Client {
            phase: Phase::Idle,
            connection: 0,
            is_unanswered: false,
            open: None,
            place: None,
            ask_at: NOW,
            has_kept: false,
            described: None,
            closed_until: NOW,
            is_revoked: false,
        };
        Self {
            record: Record::default(),
            counter: FIRST,
            clients: vec![idle; world.clients],
            requests: Vec::new(),
            messages: Vec::new(),
            granted: vec![FIRST; world.clients],
            deaths: world.deaths,
            reconnects: world.reconnects,
            revokes: world.revokes,
            has_regressed: false,
            has_overtaken: false,
            has_returned: false,
        }
    }

    pub(super) fn client(&mut self, client: u8) -> &mut Client {
        &mut self.clients[usize::from(client)]
    }

    /// Who holds by the record, in time or in the grace.
    pub(super) fn holder(&self) -> Option<u8> {
        self.record.holders().first().map(|client| client.0 as u8)
    }

    pub(super) fn send(&mut self, from: u8, kind: Kind) {
        let client = self.client(from);
        client.open = Some(kind);
        let connection = client.connection;
        self.requests.push(Request { from, connection, sent: NOW, kind });
    }

    /// The next request of a client that ends its attempt.
    pub(super) fn end(&mut self, from: u8, world: &World) {
        let client = *self.client(from);
        self.client(from).phase = Phase::Ending;
        let needs_script = client.is_unanswered && world.has(Rule::QuickEndNeedsAnswers);
        let kind = match client.phase {
            Phase::Holding { until, is_claimed: true, .. } if until > NOW && !needs_script => {
                Kind::Delete { described: client.described }
            }
            _ => Kind::End { closes: client.is_unanswered },
        };
        self.send(from, kind);
    }

    /// The connection is given up. What is under way on it may arrive at any time, or never.
    pub(super) fn reconnect(&mut self, from: u8, world: &World) {
        let client = self.client(from);
        client.connection += 1;
        let Some(open) = client.open else { return };
        let kind = match open {
            Kind::Set | Kind::Take => {
                client.is_unanswered = true;
                Kind::Take
            }
            Kind::Delete { .. } => Kind::End { closes: client.is_unanswered },
            Kind::End { closes } => {
                let closes = closes || client.is_unanswered && world.has(Rule::SecondCancelCloses);
                Kind::End { closes }
            }
            Kind::Keep { .. } => open,
        };
        self.send(from, kind);
    }

    pub(super) fn answer(&mut self, request: Request, reply: &Reply, world: &World) {
        let until = request.sent + world.ttl;
        let from = request.from;
        let client = self.client(from);
        if client.open != Some(request.kind) {
            // The cancel is under way behind it.
            return;
        }
        client.open = None;
        match (client.phase, reply) {
            (Phase::Asking | Phase::Waiting, Reply::Granted(grant)) => {
                let token = grant.token.micros();
                client.phase = Phase::Holding { token, until, is_claimed: true };
                if until <= NOW {
                    self.end(from, world);
                }
            }
            (Phase::Asking | Phase::Waiting, Reply::Queued(place)) => {
                client.phase = Phase::Waiting;
                client.place = Some(place.sequence);
                client.ask_at = (request.sent + millis(place.retry_after)).max(NOW);
            }
            (Phase::Asking | Phase::Waiting, Reply::Closed) => client.phase = Phase::Done,
            // The name was not free for one command.
            (Phase::Asking, Reply::Busy { .. }) => self.send(from, Kind::Take),
            (Phase::Holding { token, until: before, .. }, Reply::Kept { .. }) => {
                if before > NOW || !world.has(Rule::EndIsFinal) {
                    let until = until.max(before);
                    client.phase = Phase::Holding { token, until, is_claimed: true };
                }
                if let Kind::Keep { description: Some(token) } = request.kind {
                    client.described = Some(token);
                }
            }
            (Phase::Holding { is_claimed: false, .. }, Reply::NotHeld) => {
                client.phase = Phase::Asking;
                self.send(from, Kind::Take);
            }
            (Phase::Holding { .. }, Reply::NotHeld | Reply::Revoked) => self.end(from, world),
            (Phase::Ending, Reply::Ended(false)) if matches!(request.kind, Kind::Delete { .. }) => {
                self.send(from, Kind::End { closes: false });
            }
            (Phase::Ending, Reply::Ended(_)) => client.phase = Phase::Done,
            (_, _) => {}
        }
    }

    /// A message lets a waiter in, until the claim window of its grant is over. The waiter claims
    /// the grant at once.
    pub(super) fn hear(&mut self, message: Message, world: &World) {
        let begins = if world.has(Rule::AgeOfMessage) { message.granted_at } else { NOW };
        let until = begins + world.times.window_ms;
        let client = self.client(message.to);
        if client.phase != Phase::Waiting || until <= NOW || client.open.is_some() {
            return;
        }
        let token = message.token;
        client.phase = Phase::Holding { token, until, is_claimed: false };
        self.send(message.to, Kind::Keep { description: None });
    }

    /// A moment passes.
    pub(super) fn tick(&mut self, world: &World) {
        let back_to = |oldest: u64, time: &mut u64| *time = (*time - 1).max(oldest);
        let back = |time: &mut u64| back_to(OLDEST, time);
        let record = &mut self.record;
        if let Some(gate) = &mut record.gate {
            back(&mut gate.until_ms);
            if let GateState::Cooling { until_ms, .. } = &mut gate.state {
                back(until_ms);
            }
        }
        record.queue.values_mut().for_each(|waiter| back(&mut waiter.asked_ms));
        if record.queue_until_ms > 0 && world.has(Rule::QueueEnds) {
            back(&mut record.queue_until_ms);
        }
        if record.closed_until_ms > 0 {
            back(&mut record.closed_until_ms);
        }
        let sent = self.requests.iter_mut().map(|request| &mut request.sent);
        sent.for_each(|sent| back_to(NOW - world.ttl, sent));
        self.messages.iter_mut().for_each(|message| back(&mut message.granted_at));
        for client in &mut self.clients {
            back_to(NOW, &mut client.ask_at);
            back_to(NOW, &mut client.closed_until);
            if let Phase::Holding { until, .. } = &mut client.phase {
                back_to(NOW, until);
            }
        }
        if world.has(Rule::EndIsFinal) {
            for number in 0..self.clients.len() as u8 {
                let is_over = |phase| matches!(phase, Phase::Holding { until, .. } if until <= NOW);
                if is_over(self.client(number).phase) {
                    self.end(number, world);
                }
            }
        }
        self.record.expire(now());
    }

    /// Makes moments equal from which the same can happen.
    pub(super) fn normalize(&mut self) {
        self.clean();
        self.messages.sort_unstable();
        self.rank_numbers();
    }

    /// Drops what makes no difference.
    pub(super) fn clean(&mut self) {
        self.record.expire(now());
        // A message that is this late is as good as lost.
        self.messages.retain(|message| message.granted_at + 2 >= NOW);
        for client in &mut self.clients {
            if client.phase != Phase::Waiting {
                client.ask_at = NOW;
            }
            if matches!(client.phase, Phase::Dead | Phase::Done) {
                (client.open, client.place, client.described) = (None, None, None);
                client.has_kept = false;
            }
        }
    }

    /// Only the order of tokens and of places matters.
    fn rank_numbers(&mut self) {
        let mut numbers = vec![FIRST];
        self.each_number(|number| numbers.push(*number));
        numbers.sort_unstable();
        numbers.dedup();
        self.each_number(|number| {
            *number = FIRST + numbers.binary_search(number).unwrap_or_default() as u64;
        });
    }

    fn each_number(&mut self, mut f: impl FnMut(&mut u64)) {
        f(&mut self.counter);
        if let Some(gate) = &mut self.record.gate {
            match &mut gate.state {
                GateState::Held(hold) | GateState::Awaited(hold) | GateState::Revoked(hold) => {
                    hold.token.iter_mut().for_each(&mut f);
                }
                GateState::Shared { .. } | GateState::Cooling { .. } | GateState::Closed => {}
            }
        }
        for (mut place, waiter) in std::mem::take(&mut self.record.queue) {
            f(&mut place);
            self.record.queue.insert(place, waiter);
        }
        self.messages.iter_mut().for_each(|message| f(&mut message.token));
        self.granted.iter_mut().for_each(&mut f);
        for client in &mut self.clients {
            client.place.iter_mut().for_each(&mut f);
            client.described.iter_mut().for_each(&mut f);
            if let Phase::Holding { token, .. } = &mut client.phase {
                f(token);
            }
            client.open.iter_mut().for_each(|kind| kind.each_number(&mut f));
        }
        self.requests.iter_mut().for_each(|request| request.kind.each_number(&mut f));
    }
}

impl Kind {
    fn each_number(&mut self, f: &mut impl FnMut(&mut u64)) {
        match self {
            Self::Delete { described } => described.iter_mut().for_each(f),
            Self::Keep { description } => description.iter_mut().for_each(f),
            Self::End { .. } | Self::Set | Self::Take => {}
        }
    }
}
