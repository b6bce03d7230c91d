//! The totals of holders and waiters, in one line of words.

use std::time::Duration;

use leasehold::time::show_duration;

use crate::report::escaped;
use crate::watch::{Availability, Picture};

/// The totals over all names that are watched and were looked at.
pub(super) fn totals_in_words(picture: &Picture, now_ms: u64) -> String {
    let totals = picture.totals();
    let longest = totals.waited_since_ms.map(|since_ms| {
        let waited = Duration::from_millis(now_ms.saturating_sub(since_ms));
        format!(", longest {}", in_seconds(waited))
    });
    let deadlocks = match picture.deadlocks().len() {
        0 => String::new(),
        1 => ", 1 deadlock".to_owned(),
        some => format!(", {some} deadlocks"),
    };
    let unreadable = unreadable_in_words(totals.unreadable).map(|words| format!(", {words}"));
    let more = if picture.is_cut { ", more names than are watched" } else { "" };
    let so_far = picture.keys_so_far();
    let so_far = so_far.map(|keys| format!("still looking, {keys} keys so far: "));
    format!(
        "{}{} held, {} awaited by {}{}{deadlocks}{}{more}",
        so_far.unwrap_or_default(),
        totals.held,
        totals.awaited,
        totals.waiting,
        longest.unwrap_or_default(),
        unreadable.unwrap_or_default()
    )
}

/// The number of names whose record cannot be read, in words; none if there are no such names.
pub(super) fn unreadable_in_words(names: usize) -> Option<String> {
    match names {
        0 => None,
        1 => Some("1 name cannot be read".to_owned()),
        names => Some(format!("{names} names cannot be read")),
    }
}

/// Why the store cannot be looked at, and since when; none if it can be.
pub(super) fn away_in_words(store: &Availability, now_ms: u64) -> Option<String> {
    let why = escaped(store.why.as_deref()?);
    Some(match store.away_since_ms {
        None => format!("not allowed: {why}"),
        Some(since_ms) => {
            let since = Duration::from_millis(now_ms.saturating_sub(since_ms));
            format!("away for {}: {why}", in_seconds(since))
        }
    })
}

/// A span in whole seconds, for a text that changes once a second.
pub(super) fn in_seconds(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => show_duration(Duration::from_secs(seconds)),
    }
}
