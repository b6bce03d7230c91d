//! Names that are held or waited for.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{Answer, LockName, Operation, Reply, StoreError};

use super::fan_out::FanOut;
use super::nodes::Nodes;

/// Names that a majority holds, or may hold if those that do not answer are counted in.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    prefix: String,
    limit: u32,
    idle: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let operation = Operation::List { prefix, limit, idle };
    let mut fan_out = FanOut::all(nodes, started + nodes.patience(), &operation);
    let mut counts: BTreeMap<LockName, usize> = BTreeMap::new();
    let (mut answered, mut is_cut, mut errors) = (0, false, Vec::new());
    while let Some((_, outcome)) = fan_out.next().await {
        match outcome.map(|timed| timed.answer.reply) {
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
    let least = if is_cut || idle { 1 } else { nodes.least(answered) };
    let names = counts.into_iter().filter(|(_, count)| *count >= least).map(|(name, _)| name);
    Ok(nodes.answer(started, Reply::Names(names.take(limit as usize).collect())))
}
