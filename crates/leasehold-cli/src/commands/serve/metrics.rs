//! Metrics in the format OpenMetrics, for Prometheus and other programs.

use std::fmt;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::App;
use super::views::seconds;
use crate::watch::{Picture, Row};

/// The most names that metrics show: 1000, because each name makes one or more time series.
const MOST_NAMES: usize = 1_000;

/// The ages by which holds are counted, in seconds: a minute, ten, an hour, a day.
const AGES: [u64; 4] = [60, 600, 3_600, 86_400];

/// The metrics, in the format OpenMetrics
pub(super) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let mut registry = Registry::with_prefix("leasehold_serve");
    registry.register_collector(Box::new(PictureMetrics(app)));
    let mut metrics = String::new();
    // Writing to a text does not fail.
    let _written = text::encode(&mut metrics, &registry);
    ([(CONTENT_TYPE, kind)], metrics)
}

/// The values at the time of the request.
#[derive(Debug)]
struct PictureMetrics(Arc<App>);

impl Collector for PictureMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let app = &self.0;
        let (picture, now_ms) = (app.watcher.picture(), app.watcher.time.now_ms());
        let mut gauges = Gauges(encoder);
        let is_there = u32::from(picture.store.is_there);
        gauges.one("reachable", "Whether the store answers.", is_there)?;
        let help = "How many walks over all keys have ended.";
        let walks = gauges.0.encode_descriptor("walks", help, None, MetricType::Counter)?;
        ConstCounter::new(picture.walks).encode(walks)?;
        // Until everything was inspected once, a count would not cover the whole store.
        if picture.is_whole {
            gauges.totals(&picture, now_ms)?;
        }
        if let Some(took_ms) = picture.round_took_ms {
            let help = "How long the last walk over all keys took.";
            gauges.one("scan_seconds", help, seconds(took_ms))?;
        }
        if let Some(report) = app.report.borrow().as_deref() {
            let counts = [("danger", report.dangers), ("warning", report.warnings)];
            gauges.each("doctor_findings", "What the doctor found last.", "level", counts)?;
        }
        match picture.kept.is_empty() {
            true => Ok(()),
            false => gauges.named(&picture, now_ms),
        }
    }
}

/// Writes gauges, one family after the other.
struct Gauges<'a>(DescriptorEncoder<'a>);

impl Gauges<'_> {
    /// Writes a family with one sample.
    fn one<V: EncodeGaugeValue>(&mut self, name: &str, help: &str, value: V) -> fmt::Result {
        let (name, unit) = unit_of(name);
        let family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        ConstGauge::new(value).encode(family)
    }

    /// Writes a family with a sample for each value of a label.
    fn each<'v, V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'v str, V)>,
    ) -> fmt::Result {
        let (name, unit) = unit_of(name);
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        let mut samples = samples.into_iter();
        samples.try_for_each(|(of, value)| {
            ConstGauge::new(value).encode(family.encode_family(&[(label, of)])?)
        })
    }

    /// Writes the totals.
    fn totals(&mut self, picture: &Picture, now_ms: u64) -> fmt::Result {
        let totals = picture.totals();
        self.one("held", "Names that somebody holds.", totals.held)?;
        self.one("awaited", "Names that somebody waits for.", totals.awaited)?;
        self.one("waiting", "How many wait.", totals.waiting)?;
        let help = "Names whose record cannot be read: they are counted nowhere else.";
        self.one("unreadable", help, totals.unreadable)?;
        let help = "Probable deadlocks: circles of waiters that wait for each other.";
        self.one("deadlocks", help, picture.deadlocks().len())?;
        let help = "The longest that a present waiter has waited.";
        self.one("longest_wait_seconds", help, since(totals.waited_since_ms, now_ms))?;
        let help = "How old the oldest hold is.";
        self.one("longest_hold_seconds", help, since(totals.held_since_ms, now_ms))?;
        let holds: Vec<u64> = picture.rows().filter_map(|(_, row)| row.held_since_ms()).collect();
        let is_older = |age: u64| move |since_ms: &&u64| **since_ms + age * 1000 < now_ms;
        let older = AGES.map(|age| (age.to_string(), holds.iter().filter(is_older(age)).count()));
        let older = older.iter().map(|(age, count)| (age.as_str(), *count));
        let help = "Names whose oldest hold is older than this, in seconds.";
        self.each("holds_older", help, "seconds", older)?;
        let help = "The age of the oldest look at a lock.";
        self.one("oldest_look_seconds", help, since(totals.oldest_look_ms, now_ms))
    }

    /// Writes the locks that may be named: each in four families while it is held or awaited, and
    /// in one family once it was released.
    fn named(&mut self, picture: &Picture, now_ms: u64) -> fmt::Result {
        let is_told = |row: &Row| row.is_used() && row.unreadable.is_none();
        let is_wanted = |name: &str| picture.kept.iter().any(|prefix| name.starts_with(prefix));
        let rows = picture.rows().map(|(name, row)| (name.as_str(), row));
        let mut rows: Vec<_> = rows.filter(|(name, row)| is_told(row) && is_wanted(name)).collect();
        let left_out = rows.len().saturating_sub(MOST_NAMES);
        let released = picture.rows().filter(|(name, _)| is_wanted(name.as_str()));
        let released = released.filter_map(|(name, row)| Some((name.as_str(), row.released_ms()?)));
        let released = released.map(|(name, at_ms)| (name, seconds(at_ms))).take(MOST_NAMES);
        let help = "When this lock was last given back, in seconds since 1970.";
        self.each("lock_last_released_timestamp_seconds", help, "name", released)?;
        rows.truncate(MOST_NAMES);
        let help = "Names with a listed prefix that are left out: there are too many.";
        self.one("names_left_out", help, left_out)?;
        let holders = |row: &Row| row.status.holders.len() + row.status.foreign.iter().len();
        let help = "How many hold this lock.";
        let counts = rows.iter().map(|(name, row)| (*name, holders(row)));
        self.each("lock_holders", help, "name", counts)?;
        let help = "How many wait for this lock.";
        let counts = rows.iter().map(|(name, row)| (*name, row.status.waiting));
        self.each("lock_waiting", help, "name", counts)?;
        let help = "How old the oldest hold of this lock is.";
        let spans = rows.iter().map(|(name, row)| (*name, since(row.held_since_ms(), now_ms)));
        self.each("lock_hold_seconds", help, "name", spans)?;
        let help = "The longest that a present waiter has waited.";
        let spans = rows.iter().map(|(name, row)| (*name, since(row.waited_since_ms(), now_ms)));
        self.each("lock_wait_seconds", help, "name", spans)
    }
}

/// Splits the unit off a name.
fn unit_of(name: &str) -> (&str, Option<&'static Unit>) {
    name.strip_suffix("_seconds").map_or_else(|| (name, None), |bare| (bare, Some(&Unit::Seconds)))
}

/// How long ago something was, in seconds; zero if it has no time.
fn since(at_ms: Option<u64>, now_ms: u64) -> f64 {
    at_ms.map_or(0.0, |at_ms| seconds(now_ms.saturating_sub(at_ms)))
}
