//! Spans: waiting and holding, as bars of a trace.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::Client;
use leasehold::event::TracingObserver;
use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold_testkit::{Subject, must};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument, Subscriber, info_span};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// The facts about a span.
#[derive(Clone, Debug, Default)]
struct Bar {
    name: &'static str,
    parent: Option<u64>,
    follows: Vec<u64>,
    fields: BTreeMap<&'static str, String>,
    is_closed: bool,
}

impl Visit for Bar {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

/// The spans of this thread by their number, in the order in which they began.
#[derive(Clone, Debug, Default)]
struct Bars(Arc<Mutex<Vec<(u64, Bar)>>>);

impl Bars {
    fn record() -> (Self, DefaultGuard) {
        let bars = Self::default();
        let subscriber = tracing_subscriber::registry().with(bars.clone());
        (bars, tracing::subscriber::set_default(subscriber))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Bar)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Bar)) {
        let mut bars = self.lock();
        // A number is used again once its span is closed.
        match bars.iter_mut().rev().find(|(number, _)| *number == id.into_u64()) {
            Some((_, bar)) => change(bar),
            None => panic!("no span {id:?} was begun"),
        }
    }

    fn named(&self, name: &str) -> Vec<(u64, Bar)> {
        self.lock().iter().filter(|(_, bar)| bar.name == name).cloned().collect()
    }

    fn only(&self, name: &str) -> (u64, Bar) {
        match &self.named(name)[..] {
            [bar] => bar.clone(),
            bars => panic!("{name}: {bars:?}"),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Bars {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| Some(span.parent()?.id().into_u64()));
        let mut bar = Bar { name: attributes.metadata().name(), parent, ..Bar::default() };
        attributes.record(&mut bar);
        self.lock().push((id.into_u64(), bar));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.change(id, |bar| values.record(bar));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        self.change(id, |bar| bar.follows.push(follows.into_u64()));
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        self.change(&id, |bar| bar.is_closed = true);
    }
}

async fn stage() -> (Subject, Client) {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock);
    let client = subject.observed_client(TracingObserver::new()).await;
    (subject, client)
}

fn fields<const N: usize>(bar: &Bar, names: [&str; N]) -> [Option<String>; N] {
    names.map(|name| bar.fields.get(name).cloned())
}

#[tokio::test]
async fn waiting_and_holding_are_spans_beneath_that_of_the_caller() {
    let (bars, _guard) = Bars::record();
    let (subject, client) = stage().await;
    let other = subject.client().await;
    let taken = must(other.mutex("a").acquire().await);
    let lock = client.mutex("a").label("nightly");
    let caller = async move { lock.acquire().await };
    let waiter = tokio::spawn(caller.instrument(info_span!("caller")));
    subject.pass(Duration::from_secs(1)).await;
    assert!(!bars.only("leasehold.acquire").1.is_closed, "it waits");
    assert!(bars.named("leasehold.hold").is_empty());
    must(taken.release().await);
    let guard = must(must(subject.drive(waiter).await));

    let (caller, _) = bars.only("caller");
    let (waiting, acquire) = bars.only("leasehold.acquire");
    assert!(acquire.is_closed);
    assert_eq!(acquire.parent, Some(caller));
    let about = ["leasehold.name", "leasehold.mode", "leasehold.label", "leasehold.outcome"];
    let words = ["a", "exclusive", "nightly", "granted"].map(|word| Some(word.to_owned()));
    assert_eq!(fields(&acquire, about), words);

    let (_, hold) = bars.only("leasehold.hold");
    assert!(!hold.is_closed);
    assert_eq!((hold.parent, &hold.follows[..]), (Some(caller), &[waiting][..]));
    assert_eq!(fields(&hold, ["leasehold.token"]), [Some(guard.token().to_string())]);
    subject.pass(Duration::from_secs(60)).await;
    must(guard.release().await);
    let (_, hold) = bars.only("leasehold.hold");
    assert!(hold.is_closed);
    assert_eq!(fields(&hold, ["leasehold.outcome"]), [Some("released".to_owned())]);
    assert_eq!(fields(&hold, ["error.type"]), [None]);
}

#[tokio::test]
async fn a_span_that_ends_badly_says_how_and_that_it_is_an_error() {
    let (bars, _guard) = Bars::record();
    let (subject, client) = stage().await;
    let guard = must(client.mutex("a").acquire().await);
    let limit = Duration::from_millis(50);
    assert!(subject.drive(client.mutex("a").acquire_within(limit)).await.is_err());
    assert!(must(client.admin().revoke(guard.name(), guard.token()).await));
    subject.drive(guard.lost()).await;
    let names = ["leasehold.outcome", "error.type", "otel.status_code"];
    let ended = |bar: &Bar| fields(bar, names).map(Option::unwrap_or_default);
    let acquires = bars.named("leasehold.acquire");
    assert_eq!(acquires.len(), 1, "the first call did not wait");
    assert_eq!(ended(&acquires[0].1), ["timeout", "timeout", "ERROR"]);
    let (_, hold) = bars.only("leasehold.hold");
    assert_eq!(ended(&hold), ["lost", "revoked", "ERROR"]);
    assert!(hold.is_closed);
}

#[tokio::test]
async fn no_span_is_left_open_by_a_call_that_is_dropped() {
    let (bars, _guard) = Bars::record();
    let (subject, client) = stage().await;
    let _taken = must(subject.client().await.mutex("a").acquire().await);
    let lock = client.mutex("a");
    let waiter = tokio::spawn(async move { lock.acquire().await });
    subject.pass(Duration::from_secs(1)).await;
    waiter.abort();
    assert!(waiter.await.is_err());
    let (_, acquire) = bars.only("leasehold.acquire");
    assert!(acquire.is_closed);
    assert_eq!(fields(&acquire, ["leasehold.outcome"]), [Some("cancelled".to_owned())]);
}
