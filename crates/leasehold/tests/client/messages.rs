//! Answers that are slow, and messages that are lost or wrong: on a memory store behind a wire that
//! the test controls, and on a clock that it moves.

use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold::event::Event;
use leasehold::lease::Renewal;
use leasehold::store::{Capabilities, Inbox, Memory, Store};
use leasehold::{Client, Guard, Result};
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, Clock, FakeClock, FencingToken, Instant, Message,
    Operation, Reply, StoreError,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::task::coop::consume_budget;

use crate::line::world::{lock, settle};

const TTL: Duration = Duration::from_secs(30);

/// Longer than the polls after a gap, and shorter than the usual pause between polls.
const SOON: Duration = Duration::from_millis(50);

/// How many messages a flood has: at 1 ms each, they take as long as two leases.
const FLOOD: u64 = 60_000;

/// The effect of the wire on a message.
type Change = fn(Message) -> Message;

/// A store in memory behind a wire.
#[derive(Clone, Debug)]
struct Wire {
    memory: Memory,
    clock: FakeClock,
    /// How long the answer to the next acquire takes to come back.
    way_back: Arc<Mutex<Duration>>,
    /// Whether callers queue at the store; otherwise they poll, and pass no lease on.
    is_queued: bool,
    /// Whether a client that joins the queue gets its answer.
    answers: watch::Sender<bool>,
    /// Whether inboxes are opened, and the effect on the messages in them.
    inboxes: watch::Sender<bool>,
    change: Change,
    flood: Option<Flood>,
}

/// Messages without end, and how many of them have come.
#[derive(Clone, Debug)]
struct Flood {
    count: watch::Sender<u64>,
    /// Whether they are payloads of another program, which an inbox skips.
    is_foreign: bool,
}

struct ChangedInbox(Box<dyn Inbox>, Change);

impl Inbox for ChangedInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async { self.1(self.0.next().await) })
    }
}

/// It always has another message, with 1 ms between them, until there were [`FLOOD`].
struct FloodedInbox(FakeClock, Flood);

impl Inbox for FloodedInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            let Self(clock, Flood { count, is_foreign }) = self;
            loop {
                if *count.borrow() == FLOOD {
                    return std::future::pending().await;
                }
                clock.advance(Duration::from_millis(1));
                count.send_modify(|count| *count += 1);
                if !*is_foreign {
                    let token = FencingToken::from_micros(0);
                    return Message::Granted { attempt: 0, token, now_us: 0 };
                }
                consume_budget().await;
            }
        })
    }
}

/// A clock whose timers use the budget of their task, like those of tokio.
#[derive(Debug)]
struct CountedClock(FakeClock);

impl Clock for CountedClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        let sleeping = self.0.sleep_until(at);
        Box::pin(async move {
            sleeping.await;
            consume_budget().await;
        })
    }

    fn is_driven_by_caller(&self) -> bool {
        true
    }
}

impl Store for Wire {
    fn capabilities(&self) -> Capabilities {
        let mut can = self.memory.capabilities();
        (can.queued, can.local_tokens) = (self.is_queued, self.is_queued);
        can
    }

    fn execute(
        &self,
        mut operation: Operation,
    ) -> BoxFuture<'_, std::result::Result<Answer, StoreError>> {
        Box::pin(async move {
            if let Operation::On { action: Action::Take(take), .. } = &mut operation {
                take.waits &= self.is_queued;
            }
            let is_acquire = matches!(operation, Operation::On { action: Action::Take(_), .. });
            let answer = self.memory.execute(operation).await;
            // An answer that comes over a channel uses the budget of its task.
            consume_budget().await;
            if is_acquire {
                self.clock.advance(std::mem::take(&mut *self.way_back()));
            }
            if matches!(&answer, Ok(Answer { reply: Reply::Queued(_), .. })) {
                // The wait fails only when the store ends, and then this call ends, too.
                let _ = self.answers.subscribe().wait_for(|may| *may).await;
            }
            answer
        })
    }

    fn inbox(
        &self,
        client: ClientId,
    ) -> BoxFuture<'_, std::result::Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move {
            // The wait fails only when the store ends, and then this call ends, too.
            let _ = self.inboxes.subscribe().wait_for(|open| *open).await;
            if let Some(flood) = &self.flood {
                let inbox = FloodedInbox(self.clock.clone(), flood.clone());
                return Ok(Box::new(inbox) as Box<dyn Inbox>);
            }
            let inbox = self.memory.inbox(client).await?;
            Ok(Box::new(ChangedInbox(inbox, self.change)) as Box<dyn Inbox>)
        })
    }
}

impl Wire {
    fn new(change: Change) -> Self {
        let clock = FakeClock::new();
        // Some code takes a time of zero for "never".
        clock.advance(Duration::from_secs(1_000));
        let memory = Memory::with_clock(clock.clone());
        let (answers, inboxes) = (watch::Sender::new(true), watch::Sender::new(true));
        let (way_back, is_queued, flood) = (Arc::default(), true, None);
        Self { memory, clock, way_back, is_queued, answers, inboxes, change, flood }
    }

    fn way_back(&self) -> MutexGuard<'_, Duration> {
        lock(&self.way_back)
    }

    async fn client(&self) -> Client {
        let clock = CountedClock(self.clock.clone());
        let client = Client::builder().store(self.clone()).clock(clock).build().await;
        client.unwrap_or_else(|error| panic!("{error}"))
    }

    /// A client that holds `a`, and another one that waits for it.
    async fn hold_and_wait(&self) -> (Guard, JoinHandle<Result<Guard>>) {
        let held = self.client().await.mutex("a").ttl(TTL).acquire().await;
        let held = held.unwrap_or_else(|error| panic!("{error}"));
        let waits = self.client().await.mutex("a").ttl(TTL);
        let waiting = tokio::spawn(async move { waits.acquire().await });
        settle().await;
        (held, waiting)
    }

    /// Moves the clock by this span, a little at a time.
    async fn pass(&self, span: Duration) {
        let step = Duration::from_millis(5);
        for _ in 0..span.as_millis() / step.as_millis() {
            self.clock.advance(step);
            settle().await;
        }
    }
}

#[tokio::test]
async fn validity_counts_from_when_the_request_left() {
    let wire = Wire::new(|message| message);
    let client = wire.client().await;
    *wire.way_back() = Duration::from_secs(10);
    let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
    assert!(guard.validity() < Duration::from_secs(20), "{:?}", guard.validity());
}

#[tokio::test]
async fn a_grant_of_which_too_little_is_left_when_it_arrives_does_not_count() {
    let wire = Wire::new(|message| message);
    let client = wire.client().await;
    *wire.way_back() = Duration::from_secs(29);
    let lock = client.mutex("a").ttl(TTL).renewal(Renewal::Off);
    let refused = lock.acquire_within(Duration::from_secs(20)).await.unwrap_err();
    assert!(refused.to_string().contains("too little of the lease is left"), "{refused}");
}

/// At a store without a queue, the caller that polls has the subscription of its gate.
#[tokio::test]
async fn a_caller_that_goes_behind_others_after_such_a_grant_leaves_them_the_subscription() {
    let wire = Wire { is_queued: false, ..Wire::new(|message| message) };
    let other = wire.client().await.mutex("a").ttl(TTL);
    let held = other.acquire().await.unwrap();
    let client = wire.client().await;
    let [first, second] = [client.mutex("a"), client.mutex("a")].map(|lock| {
        tokio::spawn(async move { lock.ttl(TTL).acquire().await }) //
    });
    settle().await;
    held.release().await.unwrap();
    *wire.way_back() = TTL;
    while !wire.way_back().is_zero() {
        wire.pass(Duration::from_millis(5)).await;
    }
    let held = other.try_acquire().await.unwrap().expect("the second caller makes way for others");
    wire.pass(SOON).await;
    held.release().await.unwrap();
    wire.pass(Duration::from_secs(3)).await;
    drop(second.now_or_never().expect("it was its turn").unwrap().unwrap());
    wire.pass(Duration::from_secs(3)).await;
    assert!(first.is_finished());
}

#[tokio::test]
async fn a_waiter_whose_message_may_have_been_lost_asks_at_once() {
    let wire = Wire::new(|_| Message::Gap);
    let (held, waiting) = wire.hold_and_wait().await;
    held.release().await.unwrap();
    settle().await;
    wire.pass(SOON).await;
    assert!(waiting.is_finished());
}

#[tokio::test]
async fn a_waiter_that_joined_before_its_inbox_was_open_asks_once_it_is() {
    let wire = Wire::new(|message| message);
    wire.inboxes.send_replace(false);
    let (held, waiting) = wire.hold_and_wait().await;
    held.release().await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    wire.inboxes.send_replace(true);
    settle().await;
    wire.pass(SOON).await;
    assert!(waiting.is_finished());
}

#[tokio::test]
async fn a_grant_that_comes_before_the_answer_to_its_call_is_not_in_its_own_way() {
    let wire = Wire::new(|message| message);
    let held = wire.client().await.mutex("a").ttl(TTL).acquire().await.unwrap();
    let (own, told) = mpsc::channel();
    let observer = move |event: &Event<'_>| {
        if let Event::Waiting { own: Some(token), .. } = event {
            own.send(*token).unwrap();
        }
    };
    let client = Client::builder().store(wire.clone()).clock(wire.clock.clone()).observer(observer);
    let waits = client.build().await.unwrap().mutex("a").ttl(TTL);
    wire.answers.send_replace(false);
    let waiting = tokio::spawn(async move { waits.acquire().await });
    settle().await;
    held.release().await.unwrap();
    settle().await;
    wire.answers.send_replace(true);
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(told.try_iter().collect::<Vec<_>>(), []);
}

/// A broken server, or an attacker who floods the channel.
#[tokio::test]
async fn a_lease_is_renewed_although_there_is_always_another_message_of_ours_or_of_others() {
    for is_foreign in [false, true] {
        let flood = Flood { count: watch::Sender::new(0), is_foreign };
        let wire = Wire { flood: Some(flood.clone()), ..Wire::new(|message| message) };
        let client = wire.client().await;
        let guard = client.mutex("a").ttl(TTL).acquire().await.unwrap();
        let mut count = flood.count.subscribe();
        count.changed().await.unwrap();
        assert!(*count.borrow() < FLOOD, "other tasks run meanwhile");
        count.wait_for(|count| *count == FLOOD).await.unwrap();
        assert!(guard.validity() > TTL / 2, "{is_foreign}: {:?}", guard.validity());
    }
}
