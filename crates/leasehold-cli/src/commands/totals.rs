//! How many hold and wait in all, in one line of words.

use std::time::Duration;

use leasehold::time::show_duration;
use leasehold_watch::{Availability, Totals};

use crate::report::escaped;

/// What there is in all, as far as names are watched.
pub(super) fn totals_in_words(totals: &Totals, is_cut: bool, now_ms: u64) -> String {
    let longest = totals.waited_since_ms.map(|since_ms| {
        let waited = Duration::from_millis(now_ms.saturating_sub(since_ms));
        format!(", longest {}", in_seconds(waited))
    });
    let deadlocks = match totals.deadlocks {
        0 => String::new(),
        1 => ", 1 deadlock".to_owned(),
        some => format!(", {some} deadlocks"),
    };
    let more = if is_cut { ", more names than are watched" } else { "" };
    format!(
        "{} held, {} awaited by {}{}{deadlocks}{more}",
        totals.held,
        totals.awaited,
        totals.waiting,
        longest.unwrap_or_default()
    )
}

/// Since when the store is away, and why; none while it answers.
pub(super) fn away_in_words(store: &Availability, now_ms: u64) -> Option<String> {
    let Availability::Away { since_ms, why } = store else { return None };
    let since = Duration::from_millis(now_ms.saturating_sub(*since_ms));
    Some(format!("away for {}: {}", in_seconds(since), escaped(why)))
}

/// A span in whole seconds, for what changes once a second.
pub(super) fn in_seconds(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => show_duration(Duration::from_secs(seconds)),
    }
}
