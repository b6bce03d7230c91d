//! The cost of metrics and spans: an uncontended pair with an observer, compared with one without.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::event::{MetricsObserver, TracingObserver};
use leasehold::{Client, ClientBuilder};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_global_recorder,
};
use metrics_util::registry::{AtomicStorage, Registry};

use crate::measure::{Times, span};
use crate::outcome::Outcome;
use crate::server;
use crate::table::Table;

/// How many pairs of each kind are measured, in turns.
const ROUNDS: usize = 20_000;

/// Keeps the recorded values as an exporter does, but does not export them.
#[derive(Clone)]
struct Kept(Arc<Registry<Key, AtomicStorage>>);

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        self.0.get_or_create_counter(key, |counter| Counter::from_arc(Arc::clone(counter)))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.0.get_or_create_gauge(key, |gauge| Gauge::from_arc(Arc::clone(gauge)))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.0.get_or_create_histogram(key, |values| Histogram::from_arc(Arc::clone(values)))
    }
}

/// How a client is observed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Not,
    Metrics,
    Groups,
    /// Nobody subscribes to the spans.
    Tracing,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Not, Self::Metrics, Self::Groups, Self::Tracing];

    fn name(self) -> &'static str {
        match self {
            Self::Not => "no observer",
            Self::Metrics => "metrics",
            Self::Groups => "metrics, by group",
            Self::Tracing => "tracing, no subscriber",
        }
    }

    fn observes(self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Not => builder,
            Self::Metrics => builder.observer(MetricsObserver::new()),
            Self::Groups => builder.observer(MetricsObserver::new().group_by(|_| "group")),
            Self::Tracing => builder.observer(TracingObserver::new()),
        }
    }
}

/// Prints one table.
pub(crate) async fn run() -> Outcome {
    let kept = Kept(Arc::new(Registry::new(AtomicStorage)));
    set_global_recorder(kept.clone()).map_err(|error| error.to_string())?;
    let server = server::start()?;
    let heads = ["", "median", "p99", "more than without"];
    let mut table = Table::new("Observed: acquire + release of a free name, one task", &heads);
    for (store, url) in [("memory", "memory:".to_owned()), ("one server", server.url())] {
        let mut clients = Vec::new();
        for kind in Kind::ALL {
            clients.push(kind.observes(Client::builder().url(&url)).build().await?);
        }
        let mut times: Vec<Vec<Duration>> = Kind::ALL.iter().map(|_| Vec::new()).collect();
        // A tenth more to warm up, not counted.
        for round in 0..ROUNDS + ROUNDS / 10 {
            for (client, times) in clients.iter().zip(&mut times) {
                let begin = Instant::now();
                client.mutex("observed").acquire().await?.release().await?;
                let took = begin.elapsed();
                if round >= ROUNDS / 10 {
                    times.push(took);
                }
            }
            // As a scrape does; otherwise the values are kept for ever.
            if round % 1000 == 0 {
                kept.0.visit_histograms(|_, values| values.clear());
            }
        }
        let times: Vec<Times> = times.into_iter().map(Times::new).collect();
        for (kind, measured) in Kind::ALL.into_iter().zip(&times) {
            let (with, without) = (measured.median(), times[0].median());
            table.row([
                format!("{store}, {}", kind.name()),
                span(with),
                span(measured.quantile(0.99)),
                format!("{:+.1} %", (with.as_secs_f64() / without.as_secs_f64() - 1.0) * 100.0),
            ]);
        }
    }
    println!("{table}");
    Ok(())
}
