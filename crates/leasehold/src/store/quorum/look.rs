//! What an operator sees of a quorum: what a majority of its nodes say.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{
    Action, Answer, Foreign, Holder, HolderId, LockName, Mode, Operation, Reply, Status, StoreError,
};

use super::Nodes;
use super::asking::Asking;

/// Says who holds a name: whoever does so on a majority of the nodes, or may do so if those that
/// do not answer are counted in.
pub(super) async fn inspect(
    nodes: &Arc<Nodes>,
    name: &LockName,
    limit: u32,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let look = Operation::On { name: name.clone(), action: Action::Inspect { limit } };
    let mut asking = Asking::all(nodes, started + nodes.patience(), &look);
    let (mut seen, mut errors) = (Vec::new(), Vec::new());
    while !is_certain(nodes.len(), nodes.needed, &seen)
        && let Some((_, outcome)) = asking.next().await
    {
        match outcome.map(|told| told.answer.reply) {
            Ok(Reply::Status(status)) => seen.push(*status),
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    if seen.len() < nodes.needed {
        return Err(nodes.undecided(name.as_str(), seen.len(), &errors));
    }
    Ok(nodes.answer(started, Reply::Status(Box::new(merge(nodes, &seen)))))
}

/// How many of those that answered must name a hold for it to be one.
fn least(nodes: &Nodes, answered: usize) -> usize {
    nodes.needed.saturating_sub(nodes.len() - answered).max(1)
}

/// Whether no answer that is missing can make or unmake a holder, or change what most nodes say of
/// it. A majority has its newest words and mode, but those that answer first may not.
fn is_certain(nodes: usize, needed: usize, seen: &[Status]) -> bool {
    if seen.len() < needed {
        return false;
    }
    let missing = nodes - seen.len();
    by_holder(seen).into_values().all(|said| {
        said.iter().all(|holder| {
            let count = said.iter().filter(|other| is_alike(other, holder)).count();
            count >= needed || count + missing < needed
        })
    })
}

/// What the nodes say of each who holds it somewhere.
fn by_holder(seen: &[Status]) -> BTreeMap<HolderId, Vec<&Holder>> {
    let mut by_holder: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for holder in seen.iter().flat_map(|status| &status.holders) {
        by_holder.entry(holder.id).or_default().push(holder);
    }
    by_holder
}

fn merge(nodes: &Nodes, seen: &[Status]) -> Status {
    let least = least(nodes, seen.len());
    let held = by_holder(seen).into_values().filter(|said| said.len() >= least);
    Status::default()
        .with_holders(held.map(|said| agreed(said, least)).collect())
        .with_last_token(seen.iter().filter_map(|status| status.last_token).max())
        .with_foreign(foreign(nodes, seen))
}

/// Who holds it on a majority of the nodes in a way that only it understands.
fn foreign(nodes: &Nodes, seen: &[Status]) -> Option<Foreign> {
    let foreign = || seen.iter().filter_map(|status| status.foreign.as_ref());
    let often = |value: &str| foreign().filter(|other| other.value == value).count();
    let most = foreign().max_by_key(|holder| often(&holder.value))?;
    (often(&most.value) >= least(nodes, seen.len())).then(|| most.clone())
}

/// Whether two nodes say the same of a holder. Its token may differ where no majority needs it.
fn is_alike(one: &Holder, other: &Holder) -> bool {
    (&one.facts, one.mode, one.state) == (&other.facts, other.mode, other.state)
}

/// One holder, out of what several nodes say of it: as most of them have it, with the time that is
/// left as the middle one has it. A writer, if `least` of them say so: with those that do not
/// answer it may be one on a majority, however many others have only heard of the reader.
fn agreed(mut said: Vec<&Holder>, least: usize) -> Holder {
    said.sort_by_key(|holder| std::cmp::Reverse(holder.ttl_left));
    let middle = said[said.len() / 2];
    let often = |of: &dyn Fn(&Holder) -> bool| said.iter().filter(|holder| of(holder)).count();
    let most = said.iter().max_by_key(|holder| {
        let alike = often(&|other| is_alike(other, holder));
        (alike >= least && holder.mode == Mode::Exclusive, alike)
    });
    let token = said.iter().max_by_key(|holder| {
        let token = holder.token;
        (often(&|other| other.token == token), token)
    });
    let mut holder = (*most.unwrap_or(&middle)).clone();
    holder.token = token.map_or(middle.token, |holder| holder.token);
    holder.held_for = said.iter().map(|holder| holder.held_for).max().unwrap_or_default();
    holder.ttl_left = middle.ttl_left;
    holder
}

/// Names that a majority holds, or may hold if those that do not answer are counted in.
pub(super) async fn list(
    nodes: &Arc<Nodes>,
    prefix: String,
    limit: u32,
    idle: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let operation = Operation::List { prefix, limit, idle };
    let mut asking = Asking::all(nodes, started + nodes.patience(), &operation);
    let mut counts: BTreeMap<LockName, usize> = BTreeMap::new();
    let (mut answered, mut is_cut, mut errors) = (0, false, Vec::new());
    while let Some((_, outcome)) = asking.next().await {
        match outcome.map(|told| told.answer.reply) {
            Ok(Reply::Names(names)) => {
                answered += 1;
                is_cut |= names.len() >= limit as usize;
                for name in names {
                    *counts.entry(name).or_default() += 1;
                }
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    if answered < nodes.needed {
        return Err(nodes.undecided("the list", answered, &errors));
    }
    // Where the limit cut a list short, a name may be missing from it that is there.
    let least = if is_cut || idle { 1 } else { least(nodes, answered) };
    let names = counts.into_iter().filter(|(_, count)| *count >= least).map(|(name, _)| name);
    Ok(nodes.answer(started, Reply::Names(names.take(limit as usize).collect())))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::{ClientId, Facts, FencingToken};

    use super::*;

    fn seen(labels: &[&str]) -> Vec<Status> {
        let status = |label: &&str| {
            let id = HolderId { client: ClientId(1), attempt: 1 };
            let facts = Facts::new("here", 1).with_label(Some((*label).to_owned()));
            let token = FencingToken::at_us(1_800_000_000_000_000);
            let holder = Holder::new(id, Mode::Exclusive, token)
                .with_facts(facts)
                .with_ttl_left(Duration::from_secs(label.len() as u64));
            Status::default().with_holders(vec![holder])
        };
        labels.iter().map(status).collect()
    }

    #[test]
    fn nodes_that_have_not_heard_of_a_new_label_are_outvoted_by_those_that_have() {
        assert!(!is_certain(5, 3, &seen(&["old", "old", "newer"])));
        let all = seen(&["old", "old", "newer", "newer", "newer"]);
        assert!(is_certain(5, 3, &all));
        let holder = agreed(by_holder(&all).into_values().next().unwrap(), 3);
        assert_eq!(holder.facts.label.as_deref(), Some("newer"));
        assert!(is_certain(5, 3, &seen(&["old", "old", "old"])));
        assert!(!is_certain(5, 3, &seen(&["old", "old"])));
    }
}
