//! What a client's process knows of the servers, and its connections to them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::time::{Clock as _, Instant};
use leasehold_core::BoxFuture;
use leasehold_core::backoff::{Backoff, Jitter};
use tokio::sync::Notify;

use super::network::{Listener, Network, lock};

/// First and longest pause before an address is dialled again, as in the store itself.
const PACE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_millis(320));

/// First and longest pause before a subscription is opened again, as in the store itself.
const LISTEN_AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The least pause between two requests for which server serves what, as in the store itself.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// At how many servers a client listens for its messages, as in a cluster.
const SUBSCRIBED: usize = 8;

/// A process that uses the cluster.
#[derive(Debug)]
pub(super) struct Process {
    links: Mutex<HashMap<usize, Link>>,
    /// Notified when the result of a dial is known.
    dialled: Notify,
    asked_for_map: Mutex<Option<Instant>>,
    /// The process listens at this server, and at those after it.
    first_subscribed: usize,
    is_killed: AtomicBool,
}

/// What is known of a server, and the connection to it.
#[derive(Debug)]
struct Link {
    /// The generation that serves its names, as far as is known.
    known: u64,
    state: State,
    failed: Instant,
    next_dial: Instant,
    pace: Backoff,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Opening,
    Open(u64),
}

/// What a caller that needs a connection does now.
enum Turn {
    Open(u64),
    Dial,
    Failed,
    Wait(Option<Instant>),
}

impl Link {
    fn new(known: u64) -> Self {
        let (state, never) = (State::Closed, Instant::default());
        Self { known, state, failed: never, next_dial: never, pace: pace() }
    }

    fn turn(&mut self, wanted: Instant, now: Instant) -> Turn {
        match self.state {
            State::Open(generation) if generation == self.known => Turn::Open(generation),
            State::Opening => Turn::Wait(None),
            State::Open(_) | State::Closed if self.failed > wanted => Turn::Failed,
            State::Open(_) | State::Closed if now < self.next_dial => {
                Turn::Wait(Some(self.next_dial))
            }
            State::Open(_) | State::Closed => {
                self.state = State::Opening;
                Turn::Dial
            }
        }
    }
}

fn pace() -> Backoff {
    Backoff::new(PACE.0, PACE.1)
}

pub(super) fn unreachable() -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, "the connection was closed")
}

impl Process {
    pub(super) fn new(first_subscribed: usize) -> Self {
        Self {
            links: Mutex::default(),
            dialled: Notify::new(),
            asked_for_map: Mutex::default(),
            first_subscribed,
            is_killed: AtomicBool::new(false),
        }
    }

    /// From now on, the process sends nothing.
    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_killed(&self) -> bool {
        self.is_killed.load(Ordering::Relaxed)
    }

    /// The generation at the other end of a connection, which is opened if need be.
    pub(super) async fn connected(
        &self,
        network: &Network,
        index: usize,
    ) -> Result<u64, StoreError> {
        let wanted = network.clock.now();
        loop {
            let dialled = self.dialled.notified();
            let turn = {
                let mut links = lock(&self.links);
                let new = || Link::new(network.node(index).generation);
                links.entry(index).or_insert_with(new).turn(wanted, network.clock.now())
            };
            match turn {
                Turn::Open(generation) => return Ok(generation),
                Turn::Failed => return Err(unreachable()),
                Turn::Wait(None) => dialled.await,
                Turn::Wait(Some(at)) => {
                    tokio::select! {
                        () = dialled => {}
                        () = network.clock.sleep_until(at) => {}
                    }
                }
                Turn::Dial => self.dial(network, index).await?,
            }
        }
    }

    async fn dial(&self, network: &Network, index: usize) -> Result<(), StoreError> {
        let opening = Opening { process: self, index, now: network.clock.now() };
        let generation = network.dial(index).await;
        let outcome = opening.ended(generation, network);
        if outcome.is_err() {
            self.ask_others(network, index).await;
        }
        outcome
    }

    /// A connection was closed at the other end.
    pub(super) async fn closed(&self, network: &Network, index: usize, generation: u64) {
        if let Some(link) = lock(&self.links).get_mut(&index)
            && link.state == State::Open(generation)
        {
            link.state = State::Closed;
        }
        self.ask_others(network, index).await;
    }

    /// Asks other servers who serves the names of a server now, unless it asked just before.
    async fn ask_others(&self, network: &Network, index: usize) {
        let now = network.clock.now();
        {
            let mut asked = lock(&self.asked_for_map);
            if asked.is_some_and(|asked| now.saturating_since(asked) < ASK_PAUSE) {
                return;
            }
            *asked = Some(now);
        }
        if let Some(known) = network.ask_for_map(index).await
            && let Some(link) = lock(&self.links).get_mut(&index)
            && link.known < known
        {
            // The new server has another address, which was not dialled yet.
            (link.known, link.next_dial, link.pace) = (known, now, pace());
        }
    }
}

impl Listener for Process {
    fn listens_at(&self, index: usize, nodes: usize) -> bool {
        (index + nodes - self.first_subscribed % nodes) % nodes < SUBSCRIBED
    }

    fn listens_again(
        self: Arc<Self>,
        network: Arc<Network>,
        index: usize,
    ) -> BoxFuture<'static, bool> {
        let mut backoff = Backoff::new(LISTEN_AGAIN.0, LISTEN_AGAIN.1);
        Box::pin(async move {
            let mut jitter = Jitter::new(network.draw());
            loop {
                let pause = backoff.next_delay(&mut jitter);
                network.clock.sleep_until(network.clock.now() + pause).await;
                if self.is_killed() {
                    return false;
                }
                if network.dial(index).await.is_some() {
                    return true;
                }
            }
        })
    }
}

/// A dial under way. A caller that is dropped leaves the dial to the next caller.
struct Opening<'a> {
    process: &'a Process,
    index: usize,
    now: Instant,
}

impl Opening<'_> {
    fn ended(self, generation: Option<u64>, network: &Network) -> Result<(), StoreError> {
        let mut jitter = Jitter::new(network.draw());
        let mut links = lock(&self.process.links);
        let Some(link) = links.get_mut(&self.index) else { return Err(unreachable()) };
        match generation {
            // The server that has taken over is at another address.
            Some(generation) if generation == link.known => {
                (link.state, link.pace) = (State::Open(generation), pace());
                Ok(())
            }
            Some(_) | None => {
                link.failed = network.clock.now();
                link.next_dial = self.now + link.pace.next_delay(&mut jitter);
                Err(unreachable())
            }
        }
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if let Some(link) = lock(&self.process.links).get_mut(&self.index)
            && link.state == State::Opening
        {
            link.state = State::Closed;
        }
        self.process.dialled.notify_waiters();
    }
}
