//! What an examination of a store says of deadlocks.

use leasehold_core::{Deadlock, Error, Obstacle, Result};

use super::deadlocks::find;
use super::finding::Finding;
use super::traits::Store;

/// What findings are about.
const TOPIC: &str = "deadlocks";

/// What could happen, in the words of a finding.
const RISK: &str = "who waits for each other waits for ever, because what they hold is renewed";

/// What an examination says of it.
pub(super) async fn findings(place: &str, store: Result<Box<dyn Store>>) -> Vec<Finding> {
    let found = match store {
        Ok(store) => find(&*store).await.map_err(Error::from),
        Err(error) => Err(error),
    };
    match found {
        Ok(found) if found.is_empty() => {
            vec![Finding::ok(place, TOPIC, "no deadlock among those who wait")]
        }
        Ok(found) => found.iter().map(|deadlock| finding(place, deadlock)).collect(),
        Err(error) => {
            let found = format!("deadlocks could not be looked for: {error}");
            let remedy = "mend what is wrong with the store, and look again";
            vec![Finding::warning(place, TOPIC, found, RISK, remedy)]
        }
    }
}

/// It is not known whether there are any, and nothing is wrong with that.
#[cfg(feature = "redis")]
pub(super) fn not_looked_for(place: &str, why: &str) -> Finding {
    Finding::ok(place, TOPIC, format!("deadlocks cannot be looked for: {why}"))
}

fn finding(place: &str, deadlock: &Deadlock) -> Finding {
    let found = format!("probably a deadlock: {deadlock}");
    let holders = deadlock.waits.iter().filter_map(|wait| match &wait.obstacle {
        Obstacle::Holder(holder) => Some((&wait.name, holder.token)),
        _ => None,
    });
    let revoke = holders.map(|(name, token)| format!("`leasehold revoke {name} --token {token}`"));
    let revoke = revoke.collect::<Vec<_>>().join(" or ");
    let remedy = format!(
        "end one of them: {revoke}; and for the next time take the names in one call, which cannot \
         deadlock (`leasehold run A B`, `client.multi`), or bound the wait (`--wait`)"
    );
    Finding::warning(place, TOPIC, found, RISK, remedy)
}
