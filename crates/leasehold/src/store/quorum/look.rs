//! The holders of a name and its last holder, merged from the answers of the nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{
    Action, Answer, ForeignHolder, Holder, HolderId, LastHolder, LockName, Operation, Reply, Status,
};

use super::fan_out::{Replies, ask};
use super::node::Result;
use super::nodes::Nodes;

/// Returns the holders of a name: the attempts that hold it on a majority of the nodes. A silent
/// node counts as if each of these attempts held the name there.
pub(super) async fn run(nodes: &Arc<Nodes>, name: &LockName, limit: u32) -> Result<Answer> {
    let is_certain = |replies: &Replies| is_certain(nodes.len(), nodes.needed, &statuses(replies));
    let operation = Operation::On { name: name.clone(), action: Action::Look { limit } };
    let replies = ask(nodes, operation, is_certain).await;
    let seen = statuses(&replies);
    if seen.len() < nodes.needed {
        return Err(replies.undecided(nodes, name.as_str()));
    }
    Ok(Answer::untimed(Reply::Status(Box::new(merge(nodes, &seen)))))
}

fn statuses(replies: &Replies) -> Vec<&Status> {
    let statuses = replies.answers.iter().filter_map(|reply| match reply {
        Reply::Status(status) => Some(&**status),
        _ => None,
    });
    statuses.collect()
}

/// Whether no missing answer can add or remove a holder, or change what most nodes report about
/// a holder. A majority has the newest label, but the nodes that answer first may not.
fn is_certain(nodes: usize, needed: usize, seen: &[&Status]) -> bool {
    if seen.len() < needed {
        return false;
    }
    let missing = nodes - seen.len();
    let is_settled = |count: usize| count >= needed || count + missing < needed;
    let has_settled_holders = holders(seen).into_values().all(|reports| {
        reports.iter().all(|holder| {
            is_settled(reports.iter().filter(|other| is_alike(other, holder)).count())
        })
    });
    has_settled_holders && last_holders(seen).into_values().all(|them| is_settled(them.len()))
}

/// The nodes' reports of each attempt.
type Reports<'a, T> = BTreeMap<HolderId, Vec<&'a T>>;

fn by_id<'a, T>(reports: impl Iterator<Item = &'a T>, id: fn(&T) -> HolderId) -> Reports<'a, T> {
    let mut by_id = Reports::new();
    reports.for_each(|report| by_id.entry(id(report)).or_default().push(report));
    by_id
}

/// The attempts that hold the name on any node.
fn holders<'a>(seen: &[&'a Status]) -> Reports<'a, Holder> {
    by_id(seen.iter().flat_map(|status| &status.holders), |holder| holder.id)
}

/// The attempts that held the name last on any node.
fn last_holders<'a>(seen: &[&'a Status]) -> Reports<'a, LastHolder> {
    by_id(seen.iter().flat_map(|status| &status.last_holder), |last| last.id)
}

fn merge(nodes: &Nodes, seen: &[&Status]) -> Status {
    let least = nodes.least(seen.len());
    let held = holders(seen).into_values().filter(|reports| reports.len() >= least);
    Status::default()
        .with_holders(held.map(|reports| agreed(reports)).collect())
        .with_foreign(foreign(nodes, seen))
        .with_last_holder(last_holder(seen, least))
}

/// The last holder on a majority of the nodes, with the median time of its release. A hold that
/// only a minority reports was granted in a round that failed.
fn last_holder(seen: &[&Status], least: usize) -> Option<LastHolder> {
    let them = last_holders(seen).into_values().filter(|reports| reports.len() >= least);
    them.map(agreed_last).min_by_key(|last| last.ended_ago)
}

fn agreed_last(mut reports: Vec<&LastHolder>) -> LastHolder {
    reports.sort_by_key(|last| last.ended_ago);
    reports[reports.len() / 2].clone()
}

/// A holder that does not use leasehold, if it is on a majority of the nodes.
fn foreign(nodes: &Nodes, seen: &[&Status]) -> Option<ForeignHolder> {
    let foreign = || seen.iter().filter_map(|status| status.foreign.as_ref());
    let often = |value: &str| foreign().filter(|other| other.value == value).count();
    let most = foreign().max_by_key(|holder| often(&holder.value))?;
    (often(&most.value) >= nodes.least(seen.len())).then(|| most.clone())
}

/// Whether two nodes report the same about a holder. The token may differ at nodes that are not
/// needed for a majority.
fn is_alike(one: &Holder, other: &Holder) -> bool {
    (&one.info, one.state) == (&other.info, other.state)
}

/// Merges the reports of several nodes about one holder: the facts that most of them report, and
/// the median of the time left.
fn agreed(mut reports: Vec<&Holder>) -> Holder {
    reports.sort_by_key(|holder| std::cmp::Reverse(holder.ttl_left));
    let middle = reports[reports.len() / 2];
    let often = |of: &dyn Fn(&Holder) -> bool| reports.iter().filter(|holder| of(holder)).count();
    let most = reports.iter().max_by_key(|holder| often(&|other| is_alike(other, holder)));
    let token = reports.iter().max_by_key(|holder| {
        let token = holder.token;
        (often(&|other| other.token == token), token)
    });
    let mut holder = (*most.unwrap_or(&middle)).clone();
    holder.token = token.map_or(middle.token, |holder| holder.token);
    holder.held_for = reports.iter().map(|holder| holder.held_for).max().unwrap_or_default();
    holder.ttl_left = middle.ttl_left;
    holder
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::{ClientId, FencingToken, HolderInfo, Mode};

    use super::*;

    fn seen(labels: &[&str]) -> Vec<Status> {
        let status = |label: &&str| {
            let id = HolderId { client: ClientId(1), attempt: 1 };
            let info = HolderInfo::new("here", 1).with_label(Some((*label).to_owned()));
            let token = FencingToken::from_micros(1_800_000_000_000_000);
            let holder = Holder::new(id, Mode::Exclusive, Some(token))
                .with_info(info)
                .with_ttl_left(Duration::from_secs(label.len() as u64));
            Status::default().with_holders(vec![holder])
        };
        labels.iter().map(status).collect()
    }

    fn refs(seen: &[Status]) -> Vec<&Status> {
        seen.iter().collect()
    }

    fn certain(nodes: usize, needed: usize, seen: &[Status]) -> bool {
        is_certain(nodes, needed, &refs(seen))
    }

    fn ended(client: u128, ago: u64) -> LastHolder {
        let id = HolderId { client: ClientId(client), attempt: 1 };
        let token = FencingToken::from_micros(1_800_000_000_000_000);
        LastHolder::new(id, token, HolderInfo::default(), Duration::from_secs(ago))
    }

    fn seen_last(nodes: &[Option<&LastHolder>]) -> Vec<Status> {
        let status = |last: &Option<&LastHolder>| Status::default().with_last_holder(last.cloned());
        nodes.iter().map(status).collect()
    }

    #[test]
    fn the_last_holder_is_that_of_a_majority_as_most_nodes_have_it() {
        let (one, late, other, again) = (ended(1, 30), ended(1, 31), ended(2, 3), ended(1, 29));
        let nodes = [Some(&one), Some(&late), Some(&other), Some(&again), None];
        let last = last_holder(&refs(&seen_last(&nodes)), 3).unwrap();
        assert_eq!((last.id, last.ended_ago.as_secs()), (one.id, 30));
        let nodes = [Some(&one), Some(&other), None];
        assert_eq!(
            last_holder(&refs(&seen_last(&nodes)), 2),
            None,
            "no majority has granted either"
        );
    }

    #[test]
    fn a_last_holder_that_one_of_three_nodes_has_waits_for_the_last_answer() {
        let one = ended(1, 30);
        assert!(!certain(3, 2, &seen_last(&[Some(&one), None])));
        assert!(certain(3, 2, &seen_last(&[Some(&one), Some(&one)])));
        assert!(certain(3, 2, &seen_last(&[Some(&one), None, None])));
    }

    #[test]
    fn nodes_that_do_not_have_a_new_label_are_outvoted_by_those_that_do() {
        assert!(!certain(5, 3, &seen(&["old", "old", "newer"])));
        let all = seen(&["old", "old", "newer", "newer", "newer"]);
        assert!(certain(5, 3, &all));
        let holder = agreed(holders(&refs(&all)).into_values().next().unwrap());
        assert_eq!(holder.info.label.as_deref(), Some("newer"));
        assert!(certain(5, 3, &seen(&["old", "old", "old"])));
        assert!(!certain(5, 3, &seen(&["old", "old"])));
    }
}
