//! Carries requests to one server, and its replies to the callers.
//!
//! A caller that finds nothing under way writes its request itself, immediately and alone. Other
//! requests wait until the driver, a task, gets to run. The driver lets every ready task run, and
//! then writes all requests that have come meanwhile, in as few calls as possible. It does not wait
//! for callers or for replies. It reads replies as they come, and wakes each caller once.
//!
//! When the waiting requests fill a call, the latest caller writes them all. Otherwise the
//! client and the server would take turns: the server answers together what it has read together,
//! and would then be idle until all callers have asked again.

use std::future::Future;
use std::iter::zip;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use redis::{PushInfo, PushKind, RedisError, RedisResult, Value};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;

use super::bundle::{self, MOST_IN_A_CALL};
use super::link::{Ask, Item, Limits, Link, over};
use super::pushes::PushSender;
use crate::mutex::Mutex;
use crate::store::socket::Stream;

/// The most requests that are written together: 256, some 40 kB. Further requests follow right
/// behind.
const MOST_AT_ONCE: usize = 256;

struct State {
    /// The items that are not sent yet, in the order in which they came.
    waiting: Vec<Item>,
    /// `None` while a task reads or writes, and once the connection is closed.
    link: Option<Box<Link>>,
    /// The error that has closed the connection: nothing more is sent.
    closed: Option<RedisError>,
    driver: Waker,
    /// Whether the driver came while another task had the link.
    is_missed: bool,
    /// The earliest time at which a request may time out.
    expires: Option<Instant>,
}

impl State {
    /// Takes the items to send next. An item that was dropped while it waited has no caller left.
    fn take_next(&mut self) -> Vec<Item> {
        let count = self.waiting.len().min(MOST_AT_ONCE);
        let mut next = Vec::with_capacity(count);
        next.extend(self.waiting.drain(..count).filter(Item::is_awaited));
        next
    }
}

/// The state of a connection, shared with its driver.
struct Shared {
    state: Mutex<State>,
    /// Whether the server owed a reply for too long, or will do nothing for us any more.
    is_given_up: AtomicBool,
}

/// One connection. Dropping it closes it.
pub(super) struct Wire {
    shared: Arc<Shared>,
    driver: JoinHandle<()>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Wire {
    /// Drives a socket on the calling runtime.
    pub(super) fn open(
        stream: Box<dyn Stream>,
        pushes: Option<PushSender>,
        limits: Limits,
    ) -> Self {
        let state = Mutex::new(State {
            waiting: Vec::new(),
            link: Some(Box::new(Link::new(stream, pushes, limits))),
            closed: None,
            driver: Waker::noop().clone(),
            is_missed: false,
            expires: None,
        });
        let shared = Arc::new(Shared { state, is_given_up: AtomicBool::new(false) });
        let driver = tokio::spawn(Driver(Arc::clone(&shared)));
        Self { shared, driver }
    }

    /// Sends something and returns the reply, which may be a refusal.
    pub(super) async fn send(&self, ask: Ask, limit: Duration) -> RedisResult<Value> {
        let (item, reply) = Item::new(ask, Instant::now() + limit);
        self.shared.enter(item);
        let closed = || self.shared.state.lock().closed.clone().unwrap_or_else(over);
        reply.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Whether the connection still works, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.driver.is_finished() && !self.shared.is_given_up.load(Ordering::Relaxed)
    }

    /// Gives the connection up: what is under way may still end.
    pub(super) fn give_up(&self) {
        self.shared.is_given_up.store(true, Ordering::Relaxed);
    }

    /// A handle that closes the connection immediately, from anywhere.
    pub(super) fn closer(&self) -> AbortHandle {
        self.driver.abort_handle()
    }
}

impl Shared {
    /// Takes a request. Writes it, with those that wait, or leaves it to the driver.
    fn enter(&self, item: Item) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return; // the drop of the item tells the caller
        }
        let is_sooner = state.expires.is_none_or(|expires| item.until < expires);
        if is_sooner {
            state.expires = Some(item.until);
        }
        state.waiting.push(item);
        let count = state.waiting.len();
        let link = state.link.take_if(|link| match count {
            1 => link.is_idle(),
            _ => count >= MOST_IN_A_CALL && link.is_written(),
        });
        let Some(mut link) = link else {
            if count == 1 || is_sooner {
                state.driver.wake_by_ref();
            }
            return;
        };
        let items = state.take_next();
        drop(state);
        link.pack(items);
        // The driver continues with the bytes that are not written now, and handles an error.
        let is_written = link.write(&mut Context::from_waker(Waker::noop()));
        self.give_back(link, is_sooner || !matches!(is_written, Poll::Ready(Ok(()))));
    }

    /// Gives the link back, so that other tasks can read and write.
    fn give_back(&self, link: Box<Link>, wakes: bool) {
        let mut state = self.state.lock();
        if state.closed.is_some() {
            return; // the drop of the link tells the callers
        }
        state.link = Some(link);
        if mem::take(&mut state.is_missed) || wakes {
            state.driver.wake_by_ref();
        }
    }

    /// Reads and writes as much as is possible now.
    fn drive(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if !state.driver.will_wake(cx.waker()) {
            state.driver = cx.waker().clone();
        }
        let Some(mut link) = state.link.take() else {
            state.is_missed = true;
            return Poll::Pending;
        };
        drop(state);
        let outcome = self.read(&mut link, cx).and_then(|()| self.write(&mut link, cx));
        if let Err(error) = outcome {
            // The error is stored before the link is dropped: the drop wakes callers, which then
            // read it.
            self.state.lock().closed.get_or_insert(error);
            return Poll::Ready(());
        }
        let mut state = self.state.lock();
        let expires = state.expires;
        state.expires = link.expire(&mut state.waiting, expires, &self.is_given_up, cx);
        drop(state);
        self.give_back(link, false);
        Poll::Pending
    }

    /// Reads the replies that have come, and hands them out.
    fn read(&self, link: &mut Link, cx: &mut Context<'_>) -> RedisResult<()> {
        while let Poll::Ready((value, length)) = link.next(cx)? {
            match value {
                // The reply to a subscription is pushed like its messages.
                Value::Push { kind, data }
                    if !matches!(kind, PushKind::Subscribe | PushKind::SSubscribe) =>
                {
                    if let Some(pushes) = &mut link.pushes {
                        pushes.send(PushInfo { kind, data });
                    }
                }
                value => {
                    if let Some((items, value)) = link.land(value, length)? {
                        self.hand_out(items, value);
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends each caller that shared a call its reply.
    fn hand_out(&self, items: Vec<Item>, value: Value) {
        let replies = match items.first().and_then(Item::call) {
            Some(request) => bundle::replies(request, items.len(), value),
            None => Some(vec![value]),
        };
        match replies {
            Some(replies) => zip(items, replies).for_each(|(item, reply)| item.answer(Ok(reply))),
            None => self.state.lock().waiting.extend(items.into_iter().map(Item::alone)),
        }
    }

    /// Writes the waiting requests.
    fn write(&self, link: &mut Link, cx: &mut Context<'_>) -> RedisResult<()> {
        while link.write(cx)?.is_ready() {
            let mut state = self.state.lock();
            if state.waiting.is_empty() {
                link.has_yielded = false;
                return Ok(());
            }
            if !mem::replace(&mut link.has_yielded, true) {
                // A task that wakes itself runs behind the others that are ready.
                cx.waker().wake_by_ref();
                return Ok(());
            }
            let items = state.take_next();
            drop(state);
            link.pack(items);
        }
        Ok(())
    }
}

/// The task that reads and writes. When it ends, all waiting callers learn of it.
struct Driver(Arc<Shared>);

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.drive(cx)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.closed.get_or_insert_with(over);
        // The drop tells the callers. It comes after the unlock, so that they can read the state.
        let left = (mem::take(&mut state.waiting), state.link.take());
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests;
