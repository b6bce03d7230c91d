//! What an operator sees of a quorum: what a majority of its nodes say.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{
    Action, Answer, Foreign, HoldState, Holder, LockName, Operation, Reply, Status, StoreError,
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
    let mut seen = Vec::new();
    while !is_certain(nodes, &seen)
        && let Some((_, outcome)) = asking.next().await
    {
        if let Ok(Reply::Status(status)) = outcome.map(|told| told.answer.reply) {
            seen.push(*status);
        }
    }
    if seen.len() < nodes.needed {
        return Err(nodes.undecided(name, seen.len()));
    }
    Ok(nodes.answer(started, Reply::Status(Box::new(merge(nodes, &seen)))))
}

/// How many of those that answered must name a hold for it to be one.
fn least(nodes: &Nodes, answered: usize) -> usize {
    nodes.needed.saturating_sub(nodes.len() - answered).max(1)
}

/// Whether no answer that is missing can make or unmake a holder.
fn is_certain(nodes: &Nodes, seen: &[Status]) -> bool {
    if seen.len() < nodes.needed {
        return false;
    }
    let missing = nodes.len() - seen.len();
    let mut counts = BTreeMap::new();
    for holder in seen.iter().flat_map(|status| &status.holders) {
        *counts.entry(holder.id).or_insert(0) += 1;
    }
    counts.into_values().all(|count| count >= nodes.needed || count + missing < nodes.needed)
}

fn merge(nodes: &Nodes, seen: &[Status]) -> Status {
    let least = least(nodes, seen.len());
    let mut by_id: BTreeMap<_, Vec<&Holder>> = BTreeMap::new();
    for holder in seen.iter().flat_map(|status| &status.holders) {
        by_id.entry(holder.id).or_default().push(holder);
    }
    Status {
        holders: by_id.into_values().filter(|said| said.len() >= least).map(agreed).collect(),
        waiters: Vec::new(),
        waiting: 0,
        last_token: seen.iter().filter_map(|status| status.last_token).max(),
        foreign: foreign(nodes, seen),
    }
}

/// Who holds it on a majority of the nodes in a way that only it understands.
fn foreign(nodes: &Nodes, seen: &[Status]) -> Option<Foreign> {
    let foreign = || seen.iter().filter_map(|status| status.foreign.as_ref());
    let often = |value: &str| foreign().filter(|other| other.value == value).count();
    let most = foreign().max_by_key(|holder| often(&holder.value))?;
    (often(&most.value) >= least(nodes, seen.len())).then(|| most.clone())
}

/// One holder, out of what several nodes say of it: each fact as most of them have it, the time
/// that is left as the middle one has it.
fn agreed(mut said: Vec<&Holder>) -> Holder {
    said.sort_by_key(|holder| std::cmp::Reverse(holder.ttl_left));
    let middle = said[said.len() / 2];
    let often = |of: &dyn Fn(&Holder) -> bool| said.iter().filter(|holder| of(holder)).count();
    let token = said.iter().max_by_key(|holder| {
        let token = holder.token;
        (often(&|other| other.token == token), token)
    });
    let state = said.iter().max_by_key(|holder| often(&|other| other.state == holder.state));
    Holder {
        token: token.map_or(middle.token, |holder| holder.token),
        state: state.map_or(HoldState::Claimed, |holder| holder.state),
        held_for: said.iter().map(|holder| holder.held_for).max().unwrap_or_default(),
        ..middle.clone()
    }
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
    let (mut answered, mut is_cut) = (0, false);
    while let Some((_, outcome)) = asking.next().await {
        if let Ok(Reply::Names(names)) = outcome.map(|told| told.answer.reply) {
            answered += 1;
            is_cut |= names.len() >= limit as usize;
            for name in names {
                *counts.entry(name).or_default() += 1;
            }
        }
    }
    if answered < nodes.needed {
        return Err(nodes.too_few_answers("the list", answered));
    }
    // Where the limit cut a list short, a name may be missing from it that is there.
    let least = if is_cut || idle { 1 } else { least(nodes, answered) };
    let names = counts.into_iter().filter(|(_, count)| *count >= least).map(|(name, _)| name);
    Ok(nodes.answer(started, Reply::Names(names.take(limit as usize).collect())))
}
