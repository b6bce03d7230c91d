//! The socket of a connection, and the data on its way: bytes to write, bytes that were read, and
//! the callers that wait for replies.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::{Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

use super::bundle::{self, bundles};
use super::call::Request;
use super::pushes::PushSender;
use super::resp::{Frame, LONGEST, garbage};
use crate::store::socket::Stream;

/// The size of the buffers for reading and for writing: 16 KiB each. Memory for a longer reply or
/// request is freed afterwards.
pub(super) const ROOM: usize = 16 << 10;

/// How long a server may owe the next reply before the connection is given up: 2 s, four times the
/// default timeout of a request. Only a whole reply counts, not single bytes or pushed messages.
/// Otherwise only the kernel notices half-open connections (a cut cable, a firewall), and nobody
/// notices a server that drips.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// How many requests may share a call.
    pub(super) most: usize,
    /// How long the server may owe a reply.
    pub(super) silence: Duration,
}

/// A call or packed commands, to be sent.
pub(super) enum Ask {
    /// A call of a script, which may share a command with others.
    Call(Arc<Request>),
    /// One command; with a number, that many commands, whose replies come as a list.
    Packed(Vec<u8>, Option<usize>),
}

impl From<&Cmd> for Ask {
    fn from(command: &Cmd) -> Self {
        Self::Packed(command.get_packed_command(), None)
    }
}

impl From<&Pipeline> for Ask {
    fn from(commands: &Pipeline) -> Self {
        Self::Packed(commands.get_packed_pipeline(), Some(commands.len()))
    }
}

/// A call or packed commands, and the caller that waits for the reply.
pub(super) struct Item {
    ask: Ask,
    /// Whether the call shares no command.
    is_alone: bool,
    pub(super) until: Instant,
    /// `None` once the caller has been told that its time is over.
    answer: Option<oneshot::Sender<RedisResult<Value>>>,
}

impl Item {
    /// A new item, and the channel on which its reply arrives.
    pub(super) fn new(ask: Ask, until: Instant) -> (Self, oneshot::Receiver<RedisResult<Value>>) {
        let (answer, reply) = oneshot::channel();
        (Self { ask, is_alone: false, until, answer: Some(answer) }, reply)
    }

    /// The same item, to be sent alone.
    pub(super) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// The request for a script, if it may share a command.
    fn shared_call(&self) -> Option<&Request> {
        self.call().filter(|_| !self.is_alone)
    }

    /// The request for a script.
    pub(super) fn call(&self) -> Option<&Request> {
        match &self.ask {
            Ask::Call(request) => Some(request),
            Ask::Packed(..) => None,
        }
    }

    /// Sends the reply to the caller, which may have gone.
    pub(super) fn answer(self, outcome: RedisResult<Value>) {
        if let Some(answer) = self.answer {
            let _ = answer.send(outcome);
        }
    }

    /// Whether somebody waits for the reply.
    pub(super) fn is_awaited(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// If the time is over, tells the caller. Otherwise returns the time at which it will be over.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        if self.is_awaited() && now < self.until {
            return Some(self.until);
        }
        let answer = self.answer.take()?;
        let _ = answer.send(Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        None
    }
}

/// Items that were sent as one, in the order of the replies.
struct Flight {
    items: Vec<Item>,
    /// The replies to several commands so far, their length, and their final number.
    replies: Vec<Value>,
    length: usize,
    count: Option<usize>,
}

/// The socket and the data on its way. A task that reads or writes takes the whole value.
pub(super) struct Link {
    stream: Box<dyn Stream>,
    /// The bytes to write, and how many of them have been written.
    output: Vec<u8>,
    written: usize,
    /// The bytes that were read, the start of those that are not decoded yet, and their end.
    input: Vec<u8>,
    begin: usize,
    filled: usize,
    frame: Frame,
    flights: VecDeque<Flight>,
    /// The time since which the server owes the replies to the first of the flights.
    owed_since: Instant,
    pub(super) pushes: Option<PushSender>,
    timer: Pin<Box<Sleep>>,
    /// Whether every ready task has run since the driver saw that items wait.
    pub(super) has_yielded: bool,
    limits: Limits,
}

impl Link {
    /// A link over a new socket.
    pub(super) fn new(stream: Box<dyn Stream>, pushes: Option<PushSender>, limits: Limits) -> Self {
        Self {
            stream,
            output: Vec::new(),
            written: 0,
            input: vec![0; ROOM],
            begin: 0,
            filled: 0,
            frame: Frame::default(),
            flights: VecDeque::new(),
            owed_since: Instant::now(),
            pushes,
            timer: Box::pin(sleep_until(Instant::now())),
            has_yielded: false,
            limits,
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.is_written()
    }

    /// Whether everything that was packed has been written.
    pub(super) fn is_written(&self) -> bool {
        self.output.is_empty()
    }

    /// Packs requests into calls, and records which callers get the replies.
    pub(super) fn pack(&mut self, items: Vec<Item>) {
        if self.flights.is_empty() {
            self.owed_since = Instant::now();
        }
        for items in bundles(items, Item::shared_call, self.limits.most) {
            let count = match &items[0].ask {
                Ask::Packed(bytes, count) => {
                    self.output.extend_from_slice(bytes);
                    *count
                }
                Ask::Call(_) => {
                    bundle::write(items.iter().filter_map(Item::call), &mut self.output)
                }
            };
            self.flights.push_back(Flight { items, replies: Vec::new(), length: 0, count });
        }
    }

    /// Writes the packed calls.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> Poll<RedisResult<()>> {
        while self.written < self.output.len() {
            let rest = &self.output[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(over())),
                count => self.written += count,
            }
        }
        if self.written > 0 {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.output.clear();
            self.output.shrink_to(ROOM);
            self.written = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// The next reply or message, and its length. A server that closes the connection is an error.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Poll<RedisResult<(Value, usize)>> {
        loop {
            let rest = &self.input[self.begin..self.filled];
            if let Some((value, length)) = self.frame.reply(rest)? {
                self.begin += length;
                return Poll::Ready(Ok((value, length)));
            }
            self.make_room();
            let mut room = ReadBuf::new(&mut self.input[self.filled..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
            match room.filled().len() {
                0 => return Poll::Ready(Err(over())),
                count => self.filled += count,
            }
        }
    }

    /// Moves bytes that are not decoded yet to the front.
    fn make_room(&mut self) {
        self.input.copy_within(self.begin..self.filled, 0);
        self.filled -= mem::take(&mut self.begin);
        if self.filled == self.input.len() {
            self.input.resize(2 * self.filled, 0);
        } else if self.filled == 0 && self.input.len() > ROOM {
            self.input.truncate(ROOM);
            self.input.shrink_to_fit();
        }
    }

    /// The callers that this reply is for, once the reply is whole.
    pub(super) fn land(
        &mut self,
        value: Value,
        length: usize,
    ) -> RedisResult<Option<(Vec<Item>, Value)>> {
        // A server that sends a reply without a request cannot be trusted.
        let flight = self.flights.front_mut().ok_or_else(over)?;
        let mut value = value;
        if let Some(count) = flight.count {
            flight.length += length;
            if flight.length > LONGEST {
                return Err(garbage());
            }
            flight.replies.push(value);
            if flight.replies.len() < count {
                return Ok(None);
            }
            value = Value::Array(mem::take(&mut flight.replies));
        }
        self.owed_since = Instant::now();
        Ok(self.flights.pop_front().map(|flight| (flight.items, value)))
    }

    /// First records whether the server has owed a reply for too long: callers cannot judge that,
    /// because they may go before their time is over. Then tells the callers whose time is over,
    /// including those in `waiting`. Returns the time at which the next caller's time is over, or
    /// the server's, and wakes the task then.
    pub(super) fn expire(
        &mut self,
        waiting: &mut [Item],
        mut expires: Option<Instant>,
        is_overdue: &AtomicBool,
        cx: &mut Context<'_>,
    ) -> Option<Instant> {
        while let Some(at) = expires {
            if self.timer.deadline() != at {
                self.timer.as_mut().reset(at);
            }
            if self.timer.as_mut().poll(cx).is_pending() {
                break;
            }
            let now = Instant::now();
            let overdue_at =
                (!self.flights.is_empty()).then(|| self.owed_since + self.limits.silence);
            if overdue_at.is_some_and(|at| now >= at) {
                is_overdue.store(true, Ordering::Relaxed);
            }
            let flying = self.flights.iter_mut().flat_map(|flight| &mut flight.items);
            let callers = waiting.iter_mut().chain(flying).filter_map(|item| item.expire(now));
            expires = callers.chain(overdue_at.filter(|at| now < *at)).min();
        }
        expires
    }
}

/// The error for a connection that was given up, or that the server closed.
pub(super) fn over() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}
