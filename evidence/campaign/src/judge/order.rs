//! Whether waiters are served in the order of the queue, and whether a caller learns of the newest
//! leader, where the store forgets neither.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::FencingToken;
use leasehold_core::model::DEAD_AFTER;

use super::story::{Story, Violation};

/// A client that waits loses its place when it was not seen for this time; somewhat less, because
/// of what clocks and journeys differ by.
const KEEPS_ITS_PLACE: Duration = DEAD_AFTER.saturating_sub(Duration::from_millis(200));

/// What is wrong with the order in which those were served who were seen in a queue.
pub(super) fn violations(story: &Story) -> Vec<Violation> {
    // Of each attempt the first grant: its lease may go on to others of its client.
    let mut grants: HashMap<(u128, u64), (u64, u64)> = HashMap::new();
    for grant in &story.grants {
        let Some(token) = FencingToken::from_number(grant.token) else { continue };
        let found = (token.micros(), grant.entered);
        let first = grants.entry((grant.client, grant.attempt)).or_insert(found);
        *first = found.min(*first);
    }
    let mut found = Vec::new();
    for queue in &story.queues {
        for (place, (client, attempt, since)) in queue.iter().enumerate() {
            let Some((token, entered)) = grants.get(&(*client, *attempt)) else { continue };
            let certain = since + u64::try_from(KEEPS_ITS_PLACE.as_nanos()).unwrap_or(u64::MAX);
            for (client, attempt, _) in &queue[place + 1..] {
                let Some(behind) = grants.get(&(*client, *attempt)) else { continue };
                if behind.0 < *token && behind.1 < certain {
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

/// A caller that learns of a leader learns of none that had been replaced before it asked.
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
