//! Events as metrics of the crate `metrics`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{LockName, LossReason, Mode, StoreErrorKind};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, SharedString, Unit,
    with_recorder,
};

use super::{Event, LeaseFacts, Observer};
use crate::mutex::Mutex;

/// The largest number of groups of names: 100. A label with more values costs the monitoring system
/// more than it is worth.
const MAX_GROUPS: usize = 100;

/// The group of all names that come after [`MAX_GROUPS`] groups.
const OTHER: &str = "other";

const ACQUIRES: &str = "leasehold_acquires_total";
const HELD: &str = "leasehold_held";
const HOLD: &str = "leasehold_hold_seconds";
const LOSSES: &str = "leasehold_losses_total";
const RECONNECTS: &str = "leasehold_reconnects_total";
const RENEWALS: &str = "leasehold_renewals_total";
const STORE: &str = "leasehold_store_seconds";
const STORE_ERRORS: &str = "leasehold_store_errors_total";
const WAIT: &str = "leasehold_wait_seconds";
const WAITING: &str = "leasehold_waiting";
const WARNINGS: &str = "leasehold_warnings_total";

/// The values of the label `outcome` of renewals.
const RENEWAL_OUTCOMES: [&str; 2] = ["renewed", "overdue"];

static METADATA: Metadata<'_> = Metadata::new("leasehold", Level::INFO, Some(module_path!()));

/// Counts events, and measures the times of waits, of leases and of requests to the store, for the
/// installed recorder of the crate `metrics`. Exporters for Prometheus, OpenTelemetry, StatsD and
/// so on are such recorders. Install the recorder before the client is built. The counters that an
/// alert watches then begin at 0, so that the first loss of a process is an increase.
///
/// - `leasehold_acquires_total`: calls that have ended, by `mode` and `outcome` (`granted`, `busy`,
///   `timeout`, `cancelled`, `error`)
/// - `leasehold_waiting`: calls that wait, by `mode`
/// - `leasehold_wait_seconds`: a histogram, from the call to the grant, by `mode`
/// - `leasehold_held`: leases, by `mode`
/// - `leasehold_hold_seconds`: a histogram, from the grant to the release or the loss, by `mode`
/// - `leasehold_losses_total`, by `reason` ([`LossReason::as_str`](crate::LossReason::as_str))
/// - `leasehold_renewals_total`, by `outcome` (`renewed`; `overdue` for the first renewal that
///   fails)
/// - `leasehold_store_seconds`: a histogram of round trips, by `operation`
/// - `leasehold_store_errors_total`, by `kind`
///   ([`StoreErrorKind::as_str`](crate::error::StoreErrorKind::as_str))
/// - `leasehold_reconnects_total`: ends of outages
/// - `leasehold_warnings_total`
///
/// `mode` is `exclusive`, `shared` or `permits`. Names of locks are not a label,
/// because there may be millions. [`group_by`](Self::group_by) puts them into a few groups.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// use leasehold::Client;
/// use leasehold::event::MetricsObserver;
///
/// let client = Client::builder().url("memory:").observer(MetricsObserver::new()).build().await?;
/// client.mutex("invoices/42").acquire().await?.release().await
/// # }
/// ```
pub struct MetricsObserver {
    grouping: Option<Grouping>,
    /// The calls that wait.
    waiting: Mutex<HashSet<u64>>,
}

struct Grouping {
    group: Box<dyn for<'a> Fn(&'a LockName) -> &'a str + Send + Sync>,
    groups: Mutex<HashSet<Arc<str>>>,
}

impl Grouping {
    fn label(&self, name: &LockName) -> Label {
        let group = (self.group)(name);
        let mut groups = self.groups.lock();
        if let Some(group) = groups.get(group) {
            return Label::new("group", SharedString::from_shared(Arc::clone(group)));
        }
        if groups.len() >= MAX_GROUPS {
            return Label::from_static_parts("group", OTHER);
        }
        let group: Arc<str> = group.into();
        groups.insert(Arc::clone(&group));
        let label = Label::new("group", SharedString::from_shared(group));
        begin_leases(Some(&label));
        label
    }
}

impl MetricsObserver {
    /// An observer whose metrics do not distinguish names.
    pub fn new() -> Self {
        Self { grouping: None, waiting: Mutex::default() }
    }

    /// Adds a label `group` to all metrics about a lock: the value that `group` returns for its
    /// name, such as `invoices` for `invoices/42`. The function must return the same value for the
    /// same name. At most 100 groups are kept; names of all further groups are in the group
    /// `other`.
    ///
    /// ```
    /// use leasehold::event::MetricsObserver;
    ///
    /// let observer = MetricsObserver::new().group_by(|name| {
    ///     name.as_str().split_once('/').map_or("single", |(group, _)| group)
    /// });
    /// ```
    #[must_use]
    pub fn group_by(
        mut self,
        group: impl for<'a> Fn(&'a LockName) -> &'a str + Send + Sync + 'static,
    ) -> Self {
        self.grouping = Some(Grouping { group: Box::new(group), groups: Mutex::default() });
        self
    }

    /// The key of a metric about a lock.
    fn key(
        &self,
        metric: &'static str,
        name: &LockName,
        labels: &[(&'static str, &'static str)],
    ) -> Key {
        let group = self.grouping.as_ref().map(|grouping| grouping.label(name));
        key(metric, labels, group)
    }

    /// The key of a metric about locks of one mode.
    fn mode_key(&self, metric: &'static str, name: &LockName, mode: Mode) -> Key {
        self.key(metric, name, &[("mode", mode.as_str())])
    }

    fn end_call(&self, call: u64, name: &LockName, mode: Mode, outcome: &'static str) {
        if self.waiting.lock().remove(&call) {
            gauge(&self.mode_key(WAITING, name, mode)).decrement(1);
        }
        let labels = [("mode", mode.as_str()), ("outcome", outcome)];
        counter(&self.key(ACQUIRES, name, &labels)).increment(1);
    }

    fn granted(&self, call: u64, LeaseFacts { name, mode, .. }: LeaseFacts<'_>, waited: Duration) {
        self.end_call(call, name, mode, "granted");
        histogram(&self.mode_key(WAIT, name, mode)).record(waited);
        gauge(&self.mode_key(HELD, name, mode)).increment(1);
    }

    fn end_hold(&self, LeaseFacts { name, mode, .. }: LeaseFacts<'_>, held: Duration) {
        gauge(&self.mode_key(HELD, name, mode)).decrement(1);
        histogram(&self.mode_key(HOLD, name, mode)).record(held);
    }

    fn renewal(&self, name: &LockName, outcome: &'static str) {
        counter(&self.key(RENEWALS, name, &[("outcome", outcome)])).increment(1);
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for MetricsObserver {
    fn begin(&self) {
        describe();
        begin_store();
        match self.grouping {
            // The counters of a group start at the group's first call.
            Some(_) => begin_leases(Some(&Label::from_static_parts("group", OTHER))),
            None => begin_leases(None),
        }
    }

    fn observe(&self, event: &Event<'_>) {
        match *event {
            Event::Waiting { call, request, .. } => {
                if self.waiting.lock().insert(call) {
                    gauge(&self.mode_key(WAITING, request.name, request.mode)).increment(1);
                }
            }
            Event::Granted { call, lease, waited } => self.granted(call, lease, waited),
            Event::Renewed { lease, .. } => self.renewal(lease.name, "renewed"),
            Event::Overdue { lease, .. } => self.renewal(lease.name, "overdue"),
            Event::Lost { lease, held, reason, .. } => {
                self.end_hold(lease, held);
                counter(&self.key(LOSSES, lease.name, &[("reason", reason.as_str())])).increment(1);
            }
            Event::Released { lease, held } => self.end_hold(lease, held),
            Event::Failed { call, request, outcome, .. } => {
                self.end_call(call, request.name, request.mode, outcome);
            }
            Event::RoundTrip { operation, took, error, away, .. } => {
                histogram(&key(STORE, &[("operation", operation)], None)).record(took);
                if let Some(error) = error {
                    store_error(error.kind().as_str()).increment(1);
                }
                if away.is_some() {
                    counter(&Key::from_static_name(RECONNECTS)).increment(1);
                }
            }
            Event::Warning { .. } => counter(&Key::from_static_name(WARNINGS)).increment(1),
        }
    }
}

fn store_error(kind: &'static str) -> Counter {
    counter(&key(STORE_ERRORS, &[("kind", kind)], None))
}

/// Registers the metrics of the client that alerts are made for. If a series began with its first
/// event, it would show no increase for that event.
fn begin_store() {
    for kind in StoreErrorKind::WORDS {
        store_error(kind).increment(0);
    }
    for name in [RECONNECTS, WARNINGS] {
        counter(&Key::from_static_name(name)).increment(0);
    }
}

/// Registers the metrics of leases that alerts are made for, for all names or for one group.
fn begin_leases(group: Option<&Label>) {
    let begin = |metric, labels: &[(&'static str, &'static str)]| {
        counter(&key(metric, labels, group.cloned())).increment(0);
    };
    LossReason::WORDS.iter().for_each(|reason| begin(LOSSES, &[("reason", reason)]));
    RENEWAL_OUTCOMES.iter().for_each(|outcome| begin(RENEWALS, &[("outcome", outcome)]));
    for mode in Mode::WORDS {
        begin(ACQUIRES, &[("mode", mode), ("outcome", "granted")]);
    }
}

fn key(metric: &'static str, labels: &[(&'static str, &'static str)], group: Option<Label>) -> Key {
    let labels = labels.iter().map(|(label, value)| Label::from_static_parts(label, value));
    Key::from_parts(KeyName::from_const_str(metric), labels.chain(group).collect::<Vec<_>>())
}

fn counter(key: &Key) -> Counter {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA))
}

fn gauge(key: &Key) -> Gauge {
    with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
}

fn histogram(key: &Key) -> Histogram {
    with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
}

fn describe() {
    let counters = [
        (ACQUIRES, "Calls for a lease that have ended, by how."),
        (LOSSES, "Leases that ended before their holder let go, by why."),
        (RECONNECTS, "How often the store answered again after an outage."),
        (RENEWALS, "Renewals of leases, by whether they succeeded."),
        (STORE_ERRORS, "Requests to the store that failed."),
        (WARNINGS, "Warnings of the client: its log has their texts."),
    ];
    let gauges = [(HELD, "Leases that are held now."), (WAITING, "Calls for a lease that wait.")];
    let histograms = [
        (HOLD, "For how long leases were held."),
        (STORE, "How long requests to the store took."),
        (WAIT, "How long calls waited that were granted a lease."),
    ];
    with_recorder(|recorder| {
        for (name, words) in counters {
            recorder.describe_counter(name.into(), Some(Unit::Count), words.into());
        }
        for (name, words) in gauges {
            recorder.describe_gauge(name.into(), Some(Unit::Count), words.into());
        }
        for (name, words) in histograms {
            recorder.describe_histogram(name.into(), Some(Unit::Seconds), words.into());
        }
    });
}

debug_as!(MetricsObserver => |_, f| f.write_str("MetricsObserver { .. }"));
