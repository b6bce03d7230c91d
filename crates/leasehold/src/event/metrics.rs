//! Events as metrics of the crate `metrics`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{LockName, LossReason, Mode, StoreErrorKind};
use metrics::{
    Label, SharedString, Unit, counter, describe_counter, describe_gauge, describe_histogram,
    gauge, histogram,
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

    /// The labels of a metric about a lock.
    fn labels(&self, name: &LockName, own: &[(&'static str, &'static str)]) -> Vec<Label> {
        labels(own, self.grouping.as_ref().map(|grouping| grouping.label(name)))
    }

    fn mode(&self, name: &LockName, mode: Mode) -> Vec<Label> {
        self.labels(name, &[("mode", mode.as_str())])
    }

    fn end_call(&self, call: u64, name: &LockName, mode: Mode, outcome: &'static str) {
        if self.waiting.lock().remove(&call) {
            gauge!(WAITING, self.mode(name, mode)).decrement(1);
        }
        let labels = [("mode", mode.as_str()), ("outcome", outcome)];
        counter!(ACQUIRES, self.labels(name, &labels)).increment(1);
    }

    fn granted(&self, call: u64, LeaseFacts { name, mode, .. }: LeaseFacts<'_>, waited: Duration) {
        self.end_call(call, name, mode, "granted");
        histogram!(WAIT, self.mode(name, mode)).record(waited);
        gauge!(HELD, self.mode(name, mode)).increment(1);
    }

    fn end_hold(&self, LeaseFacts { name, mode, .. }: LeaseFacts<'_>, held: Duration) {
        gauge!(HELD, self.mode(name, mode)).decrement(1);
        histogram!(HOLD, self.mode(name, mode)).record(held);
    }

    fn renewal(&self, name: &LockName, outcome: &'static str) {
        counter!(RENEWALS, self.labels(name, &[("outcome", outcome)])).increment(1);
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
                    gauge!(WAITING, self.mode(request.name, request.mode)).increment(1);
                }
            }
            Event::Granted { call, lease, waited } => self.granted(call, lease, waited),
            Event::Renewed { lease, .. } => self.renewal(lease.name, "renewed"),
            Event::Overdue { lease, .. } => self.renewal(lease.name, "overdue"),
            Event::Lost { lease, held, reason, .. } => {
                self.end_hold(lease, held);
                counter!(LOSSES, self.labels(lease.name, &[("reason", reason.as_str())]))
                    .increment(1);
            }
            Event::Released { lease, held } => self.end_hold(lease, held),
            Event::Failed { call, request, outcome, .. } => {
                self.end_call(call, request.name, request.mode, outcome);
            }
            Event::RoundTrip { operation, took, error, away, .. } => {
                histogram!(STORE, "operation" => operation).record(took);
                if let Some(error) = error {
                    counter!(STORE_ERRORS, "kind" => error.kind().as_str()).increment(1);
                }
                if away.is_some() {
                    counter!(RECONNECTS).increment(1);
                }
            }
            Event::Warning { .. } => counter!(WARNINGS).increment(1),
        }
    }
}

/// Registers the metrics of the client that alerts are made for. If a series began with its first
/// event, it would show no increase for that event.
fn begin_store() {
    for kind in StoreErrorKind::WORDS {
        counter!(STORE_ERRORS, "kind" => *kind).increment(0);
    }
    counter!(RECONNECTS).increment(0);
    counter!(WARNINGS).increment(0);
}

/// Registers the metrics of leases that alerts are made for, for all names or for one group.
fn begin_leases(group: Option<&Label>) {
    for reason in LossReason::WORDS {
        counter!(LOSSES, labels(&[("reason", *reason)], group.cloned())).increment(0);
    }
    for outcome in ["renewed", "overdue"] {
        counter!(RENEWALS, labels(&[("outcome", outcome)], group.cloned())).increment(0);
    }
    for mode in Mode::WORDS {
        let own = [("mode", *mode), ("outcome", "granted")];
        counter!(ACQUIRES, labels(&own, group.cloned())).increment(0);
    }
}

fn labels(own: &[(&'static str, &'static str)], group: Option<Label>) -> Vec<Label> {
    let own = own.iter().map(|(label, value)| Label::from_static_parts(label, value));
    own.chain(group).collect()
}

fn describe() {
    describe_counter!(ACQUIRES, Unit::Count, "Calls for a lease that have ended, by how.");
    describe_counter!(LOSSES, Unit::Count, "Leases that ended before their holder let go, by why.");
    describe_counter!(
        RECONNECTS,
        Unit::Count,
        "How often the store answered again after an outage."
    );
    describe_counter!(RENEWALS, Unit::Count, "Renewals of leases, by whether they succeeded.");
    describe_counter!(STORE_ERRORS, Unit::Count, "Requests to the store that failed.");
    describe_counter!(WARNINGS, Unit::Count, "Warnings of the client: its log has their texts.");
    describe_gauge!(HELD, Unit::Count, "Leases that are held now.");
    describe_gauge!(WAITING, Unit::Count, "Calls for a lease that wait.");
    describe_histogram!(HOLD, Unit::Seconds, "For how long leases were held.");
    describe_histogram!(STORE, Unit::Seconds, "How long requests to the store took.");
    describe_histogram!(WAIT, Unit::Seconds, "How long calls waited that were granted a lease.");
}

debug_as!(MetricsObserver => |_, f| f.write_str("MetricsObserver { .. }"));
