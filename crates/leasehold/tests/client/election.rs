//! Leader election, on the memory store.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use leasehold::admin::ClientId;
use leasehold::election::Observed;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::protocol::{Answer, BoxFuture, Operation};
use leasehold::store::{Capabilities, Inbox, Memory, Store, Subscription};
use leasehold::time::{Clock, FakeClock, Instant};
use leasehold::{Client, Error, LeaseOptions, LockName};

async fn of_one_store<const N: usize>() -> [Client; N] {
    let store = Memory::new();
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(Client::builder().store(store.clone()).build().await.unwrap());
    }
    clients.try_into().unwrap()
}

fn leads(observed: leasehold::Result<Observed>) -> String {
    match observed.unwrap() {
        Observed::Leader(leader) => leader.value,
        other => panic!("no leader: {other:?}"),
    }
}

#[tokio::test]
async fn an_observer_sees_that_a_leader_is_gone_that_told_nobody() {
    let [client, other] = of_one_store().await;
    let options = LeaseOptions { ttl: Duration::from_secs(5), ..LeaseOptions::default() };
    let election = client.election("a").options(options);
    let leadership = election.campaign("one").await.unwrap();
    let mut observation = other.election("a").observe().await.unwrap();
    assert_eq!(leads(observation.next().await), "one");
    drop(leadership);
    assert!(matches!(observation.next().await.unwrap(), Observed::Nobody));
}

#[tokio::test]
async fn in_the_cooldown_after_a_leader_nobody_leads() {
    let [client, other] = of_one_store().await;
    let hour = Duration::from_secs(3600);
    let options = LeaseOptions { min_hold: Some(hour), ..LeaseOptions::default() };
    let leadership = client.election("a").options(options).campaign("one").await.unwrap();
    let mut early = other.election("a").observe().await.unwrap();
    assert_eq!(leads(early.next().await), "one");
    leadership.resign().await.unwrap();
    for mut observation in [early, other.election("a").observe().await.unwrap()] {
        let observed = tokio::time::timeout(hour / 60, observation.next()).await;
        assert!(matches!(observed, Ok(Ok(Observed::Nobody))), "{observed:?}");
    }
}

#[tokio::test]
async fn a_dropped_campaign_leaves_no_candidate() {
    let [client, other] = of_one_store().await;
    let first = client.election("a").campaign("one").await.unwrap();
    let limit = Duration::from_millis(20);
    let election = other.election("a");
    assert!(tokio::time::timeout(limit, election.campaign("two")).await.is_err());
    while client.admin().inspect(first.guard().name()).await.unwrap().waiting > 0 {
        tokio::task::yield_now().await;
    }
    first.resign().await.unwrap();
    assert_eq!(client.election("a").leader().await.unwrap(), None);
}

#[tokio::test]
async fn a_value_out_of_range_is_refused_before_anything_is_sent() {
    let client = Client::memory();
    let leadership = client.election("a").campaign("fine").await.unwrap();
    for value in ["x".repeat(1025), "two\nlines".to_owned()] {
        let error = client.election("b").campaign(&value).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(refusal) if refusal.what == "value"), "{error}");
        assert!(matches!(leadership.proclaim(&value).await, Err(Error::Invalid(_))));
    }
    assert!(matches!(client.election("").leader().await, Err(Error::Invalid(_))));
}

/// A store whose messages come late, and each of them again after the next. Sometimes it is away,
/// and sometimes a subscription is refused again and again.
#[derive(Clone, Debug)]
struct Echoing {
    store: Memory,
    clock: FakeClock,
    is_away: Arc<AtomicBool>,
    refuses: Arc<AtomicBool>,
}

impl Echoing {
    fn new() -> Self {
        let clock = FakeClock::new();
        clock.advance(Duration::from_secs(1_000));
        let store = Memory::with_clock(clock.clone());
        Self { store, clock, is_away: Arc::default(), refuses: Arc::default() }
    }

    /// A client that always reaches the store, and one that does not.
    async fn clients(&self) -> [Client; 2] {
        let build = Client::builder().store(self.store.clone()).clock(self.clock.clone()).build();
        let client = build.await.unwrap();
        let build = Client::builder().store(self.clone()).clock(self.clock.clone()).build();
        [client, build.await.unwrap()]
    }
}

impl Store for Echoing {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        if self.is_away.load(Ordering::Relaxed) {
            let error = StoreError::new(StoreErrorKind::Unreachable, "it is away");
            return Box::pin(async { Err(error) });
        }
        self.store.execute(operation)
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        self.store.inbox(client)
    }

    fn publish(&self, name: &LockName, news: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.publish(name, news)
    }

    fn subscribe(
        &self,
        name: &LockName,
    ) -> BoxFuture<'_, Result<Option<Box<dyn Subscription>>, StoreError>> {
        let (name, clock) = (name.clone(), self.clock.clone());
        if self.refuses.load(Ordering::Relaxed) {
            return Box::pin(async { Ok(Some(Box::new(Refused(clock)) as Box<dyn Subscription>)) });
        }
        Box::pin(async move {
            let Some(news) = self.store.subscribe(&name).await? else { return Ok(None) };
            let echo = Echo { news, clock, late: VecDeque::new(), before: None };
            Ok(Some(Box::new(echo) as Box<dyn Subscription>))
        })
    }
}

/// A subscription of a user that has lost the right to it: each attempt to renew it is a gap.
struct Refused(FakeClock);

impl Subscription for Refused {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            self.0.sleep_until(self.0.now() + TRIED_EVERY).await;
            None
        })
    }
}

/// How often a lost subscription is tried again.
const TRIED_EVERY: Duration = Duration::from_millis(600);

struct Echo {
    news: Box<dyn Subscription>,
    clock: FakeClock,
    late: VecDeque<(Instant, Option<String>)>,
    before: Option<Option<String>>,
}

/// How late the messages are: later than a read of the record.
const LATE: Duration = Duration::from_millis(200);

impl Subscription for Echo {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            loop {
                let due = self.late.front().map(|(due, _)| self.clock.sleep_until(*due));
                let due = async {
                    match due {
                        Some(due) => due.await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    news = self.news.next() => {
                        let due = self.clock.now() + LATE;
                        let before = self.before.replace(news.clone());
                        let told = [Some(news), before].into_iter().flatten();
                        self.late.extend(told.map(|news| (due, news)));
                    }
                    () = due => return self.late.pop_front().and_then(|(_, news)| news),
                }
            }
        })
    }
}

/// Messages of several nodes come several times, and a record is read over another connection than
/// the messages.
#[tokio::test]
async fn an_observer_sees_all_in_turn_though_news_come_late_and_again() {
    let store = Echoing::new();
    let (clock, [client, watching]) = (store.clock.clone(), store.clients().await);
    let mut observation = watching.election("a").observe().await.unwrap();
    let seen = tokio::spawn(async move {
        let mut seen = Vec::new();
        while seen.last().is_none_or(|value| value != "last") {
            if let Observed::Leader(leader) = observation.next().await.unwrap() {
                seen.push(leader.value);
            }
        }
        seen
    });
    let mut said = Vec::new();
    for number in 0..20 {
        let leader = client.election("a").campaign(format!("{number}")).await.unwrap();
        pass(&clock, Duration::from_millis(90)).await;
        leader.proclaim(format!("{number} again")).await.unwrap();
        pass(&clock, Duration::from_millis(90)).await;
        leader.resign().await.unwrap();
        said.extend([format!("{number}"), format!("{number} again")]);
    }
    let _leader = client.election("a").campaign("last").await.unwrap();
    said.push("last".to_owned());
    pass(&clock, Duration::from_secs(5)).await;
    assert_eq!(seen.await.unwrap(), said);
}

#[tokio::test]
async fn an_observer_is_told_of_an_outage_once_and_who_leads_after_it() {
    let store = Echoing::new();
    let (clock, [client, watching]) = (store.clock.clone(), store.clients().await);
    let leader = client.election("a").campaign("one").await.unwrap();
    let mut observation = watching.election("a").observe().await.unwrap();
    let (tell, told) = channel();
    let watch = tokio::spawn(async move {
        loop {
            tell.send(observation.next().await.unwrap()).unwrap();
        }
    });
    let seen = async |span: u64| {
        pass(&clock, Duration::from_secs(span)).await;
        let word = |observed| match observed {
            Observed::Leader(leader) => leader.value,
            Observed::Nobody => "nobody".to_owned(),
            Observed::Away(why) => why.to_string(),
        };
        told.try_iter().map(word).collect::<Vec<_>>()
    };
    assert_eq!(seen(5).await, ["one"]);
    store.is_away.store(true, Ordering::Relaxed);
    assert_eq!(seen(2).await, ["it is away"]);
    assert!(seen(40).await.is_empty());
    store.is_away.store(false, Ordering::Relaxed);
    assert_eq!(seen(20).await, ["one"], "it still leads, which nobody could know");
    store.is_away.store(true, Ordering::Relaxed);
    assert_eq!(seen(20).await, ["it is away"]);
    leader.resign().await.unwrap();
    assert!(seen(20).await.is_empty());
    store.is_away.store(false, Ordering::Relaxed);
    assert_eq!(seen(20).await, ["nobody"]);
    watch.abort();
}

#[tokio::test]
async fn an_observer_that_may_not_subscribe_any_more_sees_the_next_leader_in_the_record() {
    let store = Echoing::new();
    let (clock, [client, watching]) = (store.clock.clone(), store.clients().await);
    store.refuses.store(true, Ordering::Relaxed);
    let mut observation = watching.election("a").observe().await.unwrap();
    let (tell, told) = channel();
    let watch = tokio::spawn(async move {
        loop {
            tell.send(observation.next().await.unwrap()).unwrap();
        }
    });
    pass(&clock, Duration::from_secs(1)).await;
    assert!(matches!(told.try_recv(), Ok(Observed::Nobody)));
    let _leader = client.election("a").campaign("one").await.unwrap();
    pass(&clock, Duration::from_secs(3)).await;
    assert_eq!(told.try_iter().map(|seen| leads(Ok(seen))).collect::<Vec<_>>(), ["one"]);
    watch.abort();
}

/// Lets time pass in steps, and lets every task do what is due.
async fn pass(clock: &FakeClock, span: Duration) {
    let step = Duration::from_millis(10);
    for _ in 0..span.as_millis() / step.as_millis() {
        clock.advance(step);
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
    }
}
