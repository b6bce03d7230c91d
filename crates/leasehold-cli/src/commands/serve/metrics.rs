//! Numbers for Prometheus and the like, as OpenMetrics has them.

use std::fmt::{Display, Write as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use leasehold_watch::{Availability, Picture, Row};

use super::app::App;

/// Most names that are told: 1000, for each is a time series or several.
const MOST_NAMES: usize = 1_000;

/// The ages by which holds are counted, in seconds: a minute, ten, an hour, a day.
const AGES: [u64; 4] = [60, 600, 3_600, 86_400];

/// Metrics, one after the other.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, help: &str) {
        self.described(name, "gauge", help);
    }

    fn described(&mut self, name: &str, kind: &str, help: &str) {
        let unit = name.ends_with("_seconds");
        self.line(format_args!("# TYPE leasehold_serve_{name} {kind}"));
        if unit {
            self.line(format_args!("# UNIT leasehold_serve_{name} seconds"));
        }
        self.line(format_args!("# HELP leasehold_serve_{name} {help}"));
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, help);
        self.line(format_args!("leasehold_serve_{name} {value}"));
    }

    fn labelled(&mut self, name: &str, label: &str, label_value: &str, value: impl Display) {
        let label_value = escaped(label_value);
        self.line(format_args!("leasehold_serve_{name}{{{label}=\"{label_value}\"}} {value}"));
    }

    fn line(&mut self, line: impl Display) {
        // Writing to a text does not fail.
        let _written = writeln!(self.0, "{line}");
    }
}

/// What is known now.
pub(super) async fn metrics(State(app): State<Arc<App>>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], text(&app))
}

fn text(app: &App) -> String {
    let (picture, now_ms) = (app.watcher.picture(), app.watcher.time.now_ms());
    let mut text = Text::default();
    let is_there = u8::from(*picture.store() == Availability::There);
    text.gauge("reachable", "Whether the store answers.", is_there);
    text.described("walks", "counter", "How many walks over all keys have ended.");
    text.line(format_args!("leasehold_serve_walks_total {}", picture.walks()));
    // Before everything was looked at once, a number would be that of something else.
    if picture.is_whole() {
        totals(&mut text, &picture, now_ms);
    }
    if let Some(took_ms) = picture.round_took_ms() {
        let help = "How long the last walk over all keys took.";
        text.gauge("scan_seconds", help, took_ms as f64 / 1000.0);
    }
    if let Some(checkup) = app.checkup.borrow().as_deref() {
        text.family("doctor_findings", "What the doctor found last.");
        text.labelled("doctor_findings", "level", "danger", checkup.dangers);
        text.labelled("doctor_findings", "level", "warning", checkup.warnings);
    }
    if !app.metrics_names.is_empty() {
        named(&mut text, &picture, &app.metrics_names, now_ms);
    }
    text.line("# EOF");
    text.0
}

/// What there is in all.
fn totals(text: &mut Text, picture: &Picture, now_ms: u64) {
    let totals = picture.totals();
    let since = |at_ms: Option<u64>| {
        at_ms.map_or(0.0, |at_ms| now_ms.saturating_sub(at_ms) as f64 / 1000.0)
    };
    text.gauge("held", "Names that somebody holds.", totals.held);
    text.gauge("awaited", "Names that somebody waits for.", totals.awaited);
    text.gauge("waiting", "How many wait.", totals.waiting);
    let help = "Names whose record cannot be read: they are counted nowhere else.";
    text.gauge("unreadable", help, totals.unreadable);
    let help = "Circles of those who probably wait for each other.";
    text.gauge("deadlocks", help, totals.deadlocks);
    let help = "How long the one has waited who has waited longest.";
    text.gauge("longest_wait_seconds", help, since(totals.waited_since_ms));
    text.gauge("longest_hold_seconds", "How old the oldest hold is.", since(totals.held_since_ms));
    older_holds(text, picture, now_ms);
    let help = "How long ago the lock was looked at whose turn was longest ago.";
    text.gauge("oldest_look_seconds", help, since(totals.oldest_look_ms));
}

fn older_holds(text: &mut Text, picture: &Picture, now_ms: u64) {
    text.family("holds_older", "Names whose oldest hold is older than so many seconds.");
    let since: Vec<u64> = picture.rows().filter_map(|(_, row)| row.held_since_ms()).collect();
    for age in AGES {
        let older = since.iter().filter(|since_ms| *since_ms + age * 1000 < now_ms).count();
        text.labelled("holds_older", "seconds", &age.to_string(), older);
    }
}

/// The locks that may be named: each in four families.
fn named(text: &mut Text, picture: &Picture, prefixes: &[String], now_ms: u64) {
    let is_told = |row: &Row| row.is_used() && row.unreadable.is_none();
    let is_wanted = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let mut rows: Vec<_> =
        picture.rows().filter(|(name, row)| is_told(row) && is_wanted(name.as_str())).collect();
    let left_out = rows.len().saturating_sub(MOST_NAMES);
    rows.truncate(MOST_NAMES);
    let help = "Names that begin as was asked for and are not told: there are too many.";
    text.gauge("names_left_out", help, left_out);
    let since = |at_ms: Option<u64>| {
        at_ms.map_or(0.0, |at_ms| now_ms.saturating_sub(at_ms) as f64 / 1000.0)
    };
    text.family("lock_holders", "How many hold this lock.");
    for (name, row) in &rows {
        let holders = row.status.holders.len() + usize::from(row.status.foreign.is_some());
        text.labelled("lock_holders", "name", name.as_str(), holders);
    }
    text.family("lock_waiting", "How many wait for this lock.");
    for (name, row) in &rows {
        text.labelled("lock_waiting", "name", name.as_str(), row.status.waiting);
    }
    text.family("lock_hold_seconds", "How old the oldest hold of this lock is.");
    for (name, row) in &rows {
        text.labelled("lock_hold_seconds", "name", name.as_str(), since(row.held_since_ms()));
    }
    text.family("lock_wait_seconds", "How long the one has waited who has waited longest.");
    for (name, row) in &rows {
        text.labelled("lock_wait_seconds", "name", name.as_str(), since(row.waited_since_ms()));
    }
}

/// A label's value as the format has it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
