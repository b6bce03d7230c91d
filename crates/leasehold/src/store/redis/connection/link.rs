//! The socket of a connection, and what is on its way: bytes to write, bytes that were read, and
//! who waits for the replies.

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
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep_until};

use super::bundle::{self, bundles};
use super::call::Request;
use super::pushes::PushSender;
use super::resp::Frame;

/// What is kept for reading and for writing: 16 KiB each. What a long reply or a long request takes
/// beyond that is given back.
pub(super) const ROOM: usize = 16 << 10;

/// How long a server that owes a reply may say nothing before the connection is given up: 2 s,
/// four requests of the default timeout. Half-open links (a cable, a firewall) are otherwise only
/// noticed by the kernel.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// A socket, with TLS or without.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// What is sent.
pub(super) enum Ask {
    /// A call of a script, which may travel with others.
    Call(Arc<Request>),
    /// One command, or as many as the number says, whose replies come as a list.
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

/// What is sent, and the caller that waits for the reply.
pub(super) struct Item {
    ask: Ask,
    pub(super) until: Instant,
    /// Gone once the caller has been told that the time is over.
    answer: Option<oneshot::Sender<RedisResult<Value>>>,
}

impl Item {
    /// Something to send, and where its reply arrives.
    pub(super) fn new(ask: Ask, until: Instant) -> (Self, oneshot::Receiver<RedisResult<Value>>) {
        let (answer, reply) = oneshot::channel();
        (Self { ask, until, answer: Some(answer) }, reply)
    }

    /// The same, to travel alone.
    pub(super) fn alone(self) -> Self {
        match self.request() {
            Some(request) => Self { ask: Ask::from(&request.command()), ..self },
            None => self,
        }
    }

    fn request(&self) -> Option<&Request> {
        match &self.ask {
            Ask::Call(request) => Some(request),
            Ask::Packed(..) => None,
        }
    }

    /// Gives the reply. The caller may have gone.
    pub(super) fn answer(self, outcome: RedisResult<Value>) {
        if let Some(answer) = self.answer {
            let _ = answer.send(outcome);
        }
    }

    /// Whether somebody waits for the reply.
    pub(super) fn is_awaited(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Tells the caller if the time is over; else gives when it is.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        if self.is_awaited() && now < self.until {
            return Some(self.until);
        }
        let answer = self.answer.take()?;
        let _ = answer.send(Err(io::Error::from(io::ErrorKind::TimedOut).into()));
        None
    }
}

/// What was sent as one, in the order of the replies.
struct Flight {
    items: Vec<Item>,
    /// The replies to several commands, and how many there will be.
    replies: Vec<Value>,
    count: Option<usize>,
}

/// The socket and what is on its way. A task that reads or writes takes all of it.
pub(super) struct Link {
    stream: Box<dyn Stream>,
    /// What is being written, and how much of it has been.
    output: Vec<u8>,
    written: usize,
    /// What has been read, from where on it has not been understood yet, and how far it goes.
    input: Vec<u8>,
    begin: usize,
    filled: usize,
    frame: Frame,
    flights: VecDeque<Flight>,
    /// Since when the server owes a reply and has sent nothing.
    quiet_since: Instant,
    pub(super) pushes: Option<PushSender>,
    timer: Pin<Box<Sleep>>,
    /// Whether every task that was ready has run since something waits.
    pub(super) has_yielded: bool,
    /// How many requests may share a call.
    most: usize,
}

impl Link {
    /// A link over a socket that was opened just now, with a limit of requests that share a call.
    pub(super) fn new(stream: Box<dyn Stream>, pushes: Option<PushSender>, most: usize) -> Self {
        Self {
            stream,
            output: Vec::new(),
            written: 0,
            input: vec![0; ROOM],
            begin: 0,
            filled: 0,
            frame: Frame::default(),
            flights: VecDeque::new(),
            quiet_since: Instant::now(),
            pushes,
            timer: Box::pin(sleep_until(Instant::now())),
            has_yielded: false,
            most,
        }
    }

    /// Whether nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.flights.is_empty() && self.output.is_empty()
    }

    /// Makes calls of requests, and notes whose the replies are.
    pub(super) fn pack(&mut self, items: Vec<Item>) {
        if self.flights.is_empty() {
            self.quiet_since = Instant::now();
        }
        for items in bundles(items, Item::request, self.most) {
            let count = match &items[0].ask {
                Ask::Packed(bytes, count) => {
                    self.output.extend_from_slice(bytes);
                    *count
                }
                Ask::Call(_) => {
                    bundle::write(items.iter().filter_map(Item::request), &mut self.output);
                    None
                }
            };
            self.flights.push_back(Flight { items, replies: Vec::new(), count });
        }
    }

    /// Writes what has been packed.
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

    /// The next reply or message. A server that closes the connection is an error.
    pub(super) fn next(&mut self, cx: &mut Context<'_>) -> Poll<RedisResult<Value>> {
        loop {
            let rest = &self.input[self.begin..self.filled];
            if let Some((value, length)) = self.frame.reply(rest)? {
                self.begin += length;
                return Poll::Ready(Ok(value));
            }
            self.make_room();
            let mut room = ReadBuf::new(&mut self.input[self.filled..]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut room))?;
            match room.filled().len() {
                0 => return Poll::Ready(Err(over())),
                count => self.filled += count,
            }
            self.quiet_since = Instant::now();
        }
    }

    /// Moves to the front what has not been understood yet.
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

    /// The caller that this reply is for, once the reply is whole.
    pub(super) fn land(&mut self, value: Value) -> RedisResult<Option<(Vec<Item>, Value)>> {
        // A server that answers what was not asked is not to be believed.
        let flight = self.flights.front_mut().ok_or_else(over)?;
        let mut value = value;
        if let Some(count) = flight.count {
            flight.replies.push(value);
            if flight.replies.len() < count {
                return Ok(None);
            }
            value = Value::Array(mem::take(&mut flight.replies));
        }
        Ok(self.flights.pop_front().map(|flight| (flight.items, value)))
    }

    /// Tells the callers whose time is over, those in `waiting` too, and wakes the task when the
    /// next one's is; gives when that is. Before that it notes whether the server has been silent
    /// for too long: callers may have gone before their time was over, so none of them can judge.
    pub(super) fn expire(
        &mut self,
        waiting: &mut [Item],
        mut expires: Option<Instant>,
        is_silent: &AtomicBool,
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
            if !self.flights.is_empty() && now - self.quiet_since >= SILENCE {
                is_silent.store(true, Ordering::Relaxed);
            }
            let flying = self.flights.iter_mut().flat_map(|flight| &mut flight.items);
            expires = waiting.iter_mut().chain(flying).filter_map(|item| item.expire(now)).min();
        }
        expires
    }
}

/// The connection was given up, or the server closed it.
pub(super) fn over() -> RedisError {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}
