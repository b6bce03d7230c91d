//! The faults of the lines of a proxy: its handle sets them, and its lines read them.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::store::redis_wire::Script;
use tokio::sync::{oneshot, watch};

use crate::resp;

/// A fault of one call of a script. A transaction counts as the call of the script in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call is executed. This many bytes of its reply arrive; then the connection is reset.
    BreakReply(usize),
    /// The call is executed. Instead of its reply, bytes arrive that are no reply.
    GarbleReply,
    /// The call is kept until [`deliver`](super::Proxy::deliver). Its connection stays open, and
    /// nothing that is sent on it afterwards arrives.
    HoldRequest,
    /// The call is executed. Its connection stays open, and nothing more arrives on it.
    LoseReply,
    /// The reply arrives twice.
    RepeatReply,
    /// The call arrives twice; the reply to its copy is lost.
    RepeatRequest,
}

/// The protocol of clients and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The protocol of Redis, in which the proxy recognises requests and replies.
    Redis,
    /// Another protocol, of which the proxy only carries bytes.
    Unread,
}

/// What a proxy and its lines have in common.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) protocol: Protocol,
    pub(super) server_port: AtomicU16,
    pub(super) link: watch::Sender<Link>,
    pub(super) cuts: watch::Sender<u64>,
    /// The message that is sent again and again on connections that have subscribed.
    pub(super) flood: watch::Sender<Vec<u8>>,
    /// How many bytes of the flood were taken by clients.
    pub(super) flooded: AtomicU64,
    pub(super) strikes: Mutex<Vec<Strike>>,
    /// Requests that are kept.
    pub(super) held: Mutex<Vec<Vec<u8>>>,
}

/// The faults of every connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    pub(super) is_deaf: bool,
    pub(super) is_mute: bool,
    pub(super) holds_messages: bool,
    pub(super) loses_messages: bool,
    pub(super) delay: Duration,
    pub(super) drip: Duration,
}

/// One of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// A fault that waits for its call.
#[derive(Debug)]
pub(super) struct Strike {
    pub(super) script: Script,
    /// How many more calls come until the call that is struck.
    pub(super) calls_left: u32,
    pub(super) fault: Fault,
    pub(super) told: oneshot::Sender<()>,
}

impl Shared {
    pub(super) fn server_port(&self) -> u16 {
        self.server_port.load(Ordering::Relaxed)
    }

    pub(super) fn link(&self) -> Link {
        *self.link.borrow()
    }

    /// The fault of this request, if it has one.
    pub(super) fn strike_for(&self, parts: &[Vec<u8>]) -> Option<Strike> {
        let called = parts.iter().find_map(|part| resp::script(part))?;
        let mut strikes = locked(&self.strikes);
        for strike in strikes.iter_mut().filter(|strike| strike.script == called) {
            strike.calls_left = strike.calls_left.saturating_sub(1);
        }
        let is_due = |strike: &Strike| strike.script == called && strike.calls_left == 0;
        let due = strikes.iter().position(is_due)?;
        Some(strikes.remove(due))
    }
}

impl Link {
    /// Whether nothing is carried to this side.
    pub(super) fn is_held_back(&self, side: Side) -> bool {
        match side {
            Side::Client => self.is_mute,
            Side::Server => self.is_deaf,
        }
    }
}

impl Strike {
    pub(super) fn tell(self) {
        // Not every test waits for this.
        let _ = self.told.send(());
    }
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
