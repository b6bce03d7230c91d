//! A client whose metrics a test reads, on a store that a test hurts and a clock that it moves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::event::MetricsObserver;
use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold::{Client, LockName};
use leasehold_testkit::{Faults, Faulty, Subject, must};
use metrics::LocalRecorderGuard;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

pub(crate) const TTL: Duration = Duration::from_secs(30);

/// The longest time of a request in each direction, in the slow scene.
const DELAY: Duration = Duration::from_millis(4);

/// The values that were recorded so far; for a histogram, in seconds.
#[derive(Clone, Default)]
pub(crate) struct Recorded(BTreeMap<String, Vec<f64>>);

impl Recorded {
    /// The values of `metric`, such as `leasehold_held{mode=shared}`; empty if there are none.
    pub(crate) fn of(&self, metric: &str) -> &[f64] {
        self.0.get(metric).map_or(&[], Vec::as_slice)
    }

    /// The value of a counter or a gauge.
    pub(crate) fn number(&self, metric: &str) -> f64 {
        match self.of(metric) {
            [] => 0.0,
            [number] => *number,
            many => panic!("{metric} is no number: {many:?}"),
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// The metrics of this thread, while this value lives.
pub(crate) struct Metrics {
    snapshotter: Snapshotter,
    recorded: RefCell<Recorded>,
    _recorder: LocalRecorderGuard<'static>,
}

impl Metrics {
    pub(crate) fn record() -> Self {
        let recorder: &'static DebuggingRecorder = Box::leak(Box::default());
        let snapshotter = recorder.snapshotter();
        let recorded = RefCell::default();
        Self { snapshotter, recorded, _recorder: metrics::set_default_local_recorder(recorder) }
    }

    pub(crate) fn recorded(&self) -> Recorded {
        let mut recorded = self.recorded.borrow_mut();
        // A snapshot removes the values that it returns.
        for (key, _, _, value) in self.snapshotter.snapshot().into_vec() {
            let key = key.key();
            let labels = key.labels().map(|label| format!("{}={}", label.key(), label.value()));
            let labels = labels.collect::<Vec<_>>().join(",");
            let name = match labels.is_empty() {
                true => key.name().to_owned(),
                false => format!("{}{{{labels}}}", key.name()),
            };
            let before = recorded.0.entry(name).or_default();
            let mut add = |number| match before.first_mut() {
                Some(before) => *before += number,
                None => before.push(number),
            };
            match value {
                DebugValue::Counter(count) => add(count as f64),
                DebugValue::Gauge(number) => add(number.0),
                DebugValue::Histogram(values) => {
                    before.extend(values.iter().map(|value| value.0));
                }
            }
        }
        recorded.clone()
    }
}

/// One test's stage.
pub(crate) struct Scene {
    pub(crate) subject: Subject,
    pub(crate) clock: FakeClock,
    pub(crate) network: Faulty,
    pub(crate) client: Client,
    /// Another client, whose metrics are not recorded.
    pub(crate) other: Client,
    pub(crate) name: LockName,
    metrics: Metrics,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(MetricsObserver::new(), Faults::default(), 1).await
    }

    /// A scene in which requests and answers take their time.
    pub(crate) async fn slow(seed: u64) -> Self {
        let faults = Faults { delay: DELAY, timeout: 10 * DELAY, ..Faults::default() };
        Self::with(MetricsObserver::new(), faults, seed).await
    }

    pub(crate) async fn with(observer: MetricsObserver, faults: Faults, seed: u64) -> Self {
        let metrics = Metrics::record();
        let clock = FakeClock::new();
        let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
        let network = Faulty::new(subject.store(), clock.clone(), faults, seed);
        let builder = Client::builder().store(network.clone()).clock(clock.clone());
        let client = must(builder.observer(observer).build().await);
        let other = subject.client().await;
        let name = subject.fresh_name("observing");
        Self { subject, clock, network, client, other, name, metrics }
    }

    pub(crate) fn recorded(&self) -> Recorded {
        self.metrics.recorded()
    }
}
