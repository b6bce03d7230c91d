//! Checks that waiters are served in the order of the queue, and that callers learn of the newest
//! leader, where the store forgets neither.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::FencingToken;
use leasehold_core::model::Times;

use super::story::{Stop, Story, Violation};

/// A waiter is passed over if it has not asked for this time. It is a little less, because of the
/// differences of clocks and the times of travel.
const KEEPS_ITS_PLACE: Duration = Duration::from_millis(
    Times::USUAL.ask_ms + Times::USUAL.window_ms - 200, //
);

/// A waiter that does not claim its grant in this time loses it, and its next grant comes later by
/// as much. So that grant says nothing about the order. It is a little less than the window,
/// because of differences of clocks.
const CLAIMS_ITS_GRANT_US: u64 = (Times::USUAL.window_ms - 200) * 1_000;

/// A process that is stopped for this time may lose its grant, although it asks every second.
const STOPPED_NS: u64 = (Times::USUAL.window_ms - Times::USUAL.ask_ms) * 1_000_000;

/// The violations of the order among waiters that were seen in a queue.
pub(super) fn violations(story: &Story, stops: &[Stop]) -> Vec<Violation> {
    // The first grant of each attempt: its lease may be passed on within its client.
    let mut grants: HashMap<(u128, u64), (u64, u64, bool)> = HashMap::new();
    for grant in &story.grants {
        let Some(token) = FencingToken::from_number(grant.token) else { continue };
        let was_stopped = stops.iter().any(|(process, from, to)| {
            *process == grant.process()
                && (*to).min(grant.entered) > STOPPED_NS + from.max(&grant.asked)
        });
        let found = (token.micros(), grant.entered, was_stopped);
        let first = grants.entry((grant.client, grant.attempt)).or_insert(found);
        *first = found.min(*first);
    }
    let mut found = Vec::new();
    for queue in &story.queues {
        for (place, (client, attempt, since)) in queue.iter().enumerate() {
            let Some((token, entered, false)) = grants.get(&(*client, *attempt)) else { continue };
            let certain = since + u64::try_from(KEEPS_ITS_PLACE.as_nanos()).unwrap_or(u64::MAX);
            for (client, attempt, _) in &queue[place + 1..] {
                let Some(behind) = grants.get(&(*client, *attempt)) else { continue };
                let is_first_grant = *token < behind.0 + CLAIMS_ITS_GRANT_US;
                if behind.0 < *token && is_first_grant && behind.1 < certain {
                    let what = format!("{} was behind {token}, and served before it", behind.0);
                    let window = (*since, behind.1.max(*entered));
                    found.push(Violation::new("I6", what, window));
                }
            }
        }
    }
    found.extend(leaders_of_the_past(story));
    found
}

/// A caller that learns of a leader must not learn of one that was replaced before it asked.
fn leaders_of_the_past(story: &Story) -> Vec<Violation> {
    let replaced = story.led.iter().filter_map(|(token, asked)| {
        let before = story.grants.iter().filter(|grant| grant.entered < *asked);
        let newest = before.max_by_key(|grant| grant.token)?;
        (newest.token > *token).then(|| {
            let what = format!("{token} leads, it was said, after {} did", newest.token);
            Violation::new("leader", what, (newest.asked, *asked))
        })
    });
    replaced.collect()
}
