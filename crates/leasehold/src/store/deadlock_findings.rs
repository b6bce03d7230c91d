//! The findings about deadlocks, for an examination of a store.

use leasehold_core::{Deadlock, Error, LockName, Obstacle, Result, StoreError, StoreErrorKind};

use super::deadlocks;
use super::finding::Finding;
use super::traits::Store;

/// The topic of these findings.
const TOPIC: &str = "deadlocks";

/// The risk of a deadlock.
const RISK: &str = "they wait for ever, because the leases that they hold are renewed";

/// The topic of findings about records.
const RECORDS: &str = "records";

/// The risk of a record that cannot be read.
const UNREADABLE: &str =
    "nobody can take or renew such a name, and it was left out of the search for deadlocks";

/// The remedy for a record of another release.
const UPGRADE: &str = "use one release of leasehold everywhere";

/// The largest number of names that a finding shows.
const MOST_NAMED: usize = 5;

/// The findings about deadlocks at a store, or about an error of the search.
pub(super) async fn findings(place: &str, store: Result<Box<dyn Store>>) -> Vec<Finding> {
    let found = match store {
        Ok(store) => deadlocks::find(&*store).await.map_err(Error::from),
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => {
            let deadlocks = found.deadlocks.iter().map(|deadlock| finding(place, deadlock));
            let mut findings: Vec<_> = deadlocks.collect();
            if findings.is_empty() {
                findings.push(Finding::ok(place, TOPIC, "no deadlock among the waiters"));
            }
            findings.extend(unreadable(place, &found.unreadable));
            findings
        }
        Err(error) => {
            let found = format!("deadlocks could not be looked for: {error}");
            let remedy = "mend what is wrong with the store, and look again";
            vec![Finding::warning(place, TOPIC, found, RISK, remedy)]
        }
    }
}

/// The findings about unreadable records at a node of a quorum, which has no queue to search for
/// deadlocks. A node that does not answer gets no finding here: another finding reports that node.
#[cfg(feature = "redis")]
pub(super) async fn unreadable_at(place: &str, node: &dyn Store) -> Vec<Finding> {
    let found = deadlocks::look_at_all(node).await.unwrap_or_default();
    unreadable(place, &found.unreadable)
}

/// The names that were skipped: one finding for the records of another release, and one for all
/// others.
fn unreadable(place: &str, names: &[(LockName, StoreError)]) -> Vec<Finding> {
    let (other_release, rest): (Vec<_>, Vec<_>) =
        names.iter().partition(|(_, error)| error.kind() == StoreErrorKind::Version);
    let first = rest.first().map(|(name, error)| format!("{name}: {error}")).unwrap_or_default();
    let groups = [
        (other_release, "written by another release", UPGRADE.to_owned()),
        (rest, "unreadable", first),
    ];
    let groups = groups.into_iter().filter(|(names, ..)| !names.is_empty());
    let finding = |(names, what, remedy): (Vec<&(LockName, _)>, &str, String)| {
        let shown = names.iter().take(MOST_NAMED).map(|(name, _)| name.as_str());
        let shown = shown.collect::<Vec<_>>().join(", ");
        let more = match names.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let found = match names.len() {
            1 => format!("1 name is {what}: {shown}"),
            count => format!("{count} names are {what}: {shown}{more}"),
        };
        Finding::danger(place, RECORDS, found, UNREADABLE, remedy)
    };
    groups.map(finding).collect()
}

/// The finding that deadlocks cannot be searched for at a store without a queue. That is no fault.
#[cfg(feature = "redis")]
pub(super) fn no_queue(place: &str) -> Finding {
    Finding::ok(place, TOPIC, "deadlocks cannot be looked for: there is no queue")
}

/// The finding that deadlocks could not be searched for, because a user lacks these rights.
#[cfg(feature = "redis")]
pub(super) fn not_allowed(place: &str, user: &str, rights: &str) -> Finding {
    let found = format!("deadlocks cannot be looked for: the user {user} lacks {rights}");
    let remedy = format!("run doctor as a user with {rights}");
    Finding::warning(place, TOPIC, found, "a deadlock stays unseen, and lasts", remedy)
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
