//! A change of mode on all nodes: a reader becomes the writer, or a writer a reader.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::NOT_AFTER;
use leasehold_core::quorum::{NodeHold, quorum_validity};
use leasehold_core::{
    Action, Answer, FencingToken, HolderId, Instant, LockName, Mode, Reply, StoreError,
};

use super::nodes::Nodes;
use super::replies::{Replies, ask, ask_holders};

/// Makes a reader the writer, or a writer a reader. All nodes get the same change number.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    mode: Mode,
    change: u64,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let replies = ask_holders(nodes, name, Action::ChangeMode { id, mode, change }).await;
    if replies.granted() >= nodes.needed {
        return match mode {
            Mode::Exclusive => upgraded(nodes, name, id, change, started, &replies).await,
            _ => {
                settle(nodes, id, mode, change);
                replies.granted_or_lost(nodes, name, id, started)
            }
        };
    }
    if let Some(loss) = replies.loss(nodes) {
        return Ok(nodes.answer(started, loss));
    }
    // The request was overtaken by another one of the same holder.
    let is_final = |reply: &&Reply| matches!(reply, Reply::Refused(_) | Reply::Stale);
    if let Some(reply) = replies.replies().find(is_final) {
        return Ok(nodes.answer(started, reply.clone()));
    }
    let busy = replies.replies().filter_map(|reply| match reply {
        Reply::Busy { retry_after } => Some(*retry_after),
        _ => None,
    });
    let busy: Vec<Duration> = busy.collect();
    if replies.granted() + busy.len() >= nodes.needed {
        let retry_after = busy.into_iter().max().unwrap_or_default();
        return Ok(nodes.answer(started, Reply::Busy { retry_after }));
    }
    match replies.count(|reply| *reply == Reply::WouldDeadlock) {
        0 => Err(replies.undecided(nodes, name)),
        // At nodes that got this request before the other reader's, its holder withdraws it.
        _ => Ok(nodes.answer(started, Reply::WouldDeadlock)),
    }
}

/// Completes an upgrade that a majority has granted. Each node has minted its own token, and all
/// must agree on one.
///
/// From now on, only the nodes count that have the writer's lease. The other nodes still have the
/// reader's lease. They admit further readers, and the reader's lease may last longer than the
/// writer's lease.
async fn upgraded(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    change: u64,
    started: Instant,
    replies: &Replies,
) -> Result<Answer, StoreError> {
    let ttl = nodes.leases.lock().get(id).map_or(NOT_AFTER, |known| known.ttl);
    let token = replies.tokens().max().unwrap_or(FencingToken::from_micros(0));
    let writers: Vec<usize> = replies.holds().map(|(index, ..)| index).collect();
    let agreed = |replies: &Replies| {
        let agreed = replies.holds().filter(|(at, of, _)| *of == token && writers.contains(at));
        agreed.map(|(index, _, hold)| (index, hold)).collect::<Vec<_>>()
    };
    let is_certain =
        |replies: &Replies| agreed(replies).len() >= nodes.needed || replies.loss(nodes).is_some();
    let committed = ask(nodes, name, Action::Commit { id, token, ttl }, is_certain).await;
    let agreed = agreed(&committed);
    if agreed.len() < nodes.needed {
        return match committed.loss(nodes) {
            Some(loss) => Ok(nodes.answer(started, loss)),
            // If the holder asks again, it is the writer already, and the nodes only have to agree
            // on the token.
            None => Err(committed.undecided(nodes, name)),
        };
    }
    nodes.ballots.lock().saw(token);
    settle(nodes, id, Mode::Exclusive, change);
    if let Some(known) = nodes.leases.lock().get_mut(id) {
        known.token = token;
        known.holds.fill(NodeHold::NotHeld);
        agreed.into_iter().for_each(|(index, hold)| known.holds[index] = hold);
        known.until = started + quorum_validity(&known.holds, nodes.needed, started);
    }
    let reply = Reply::Granted(committed.unchanged(nodes, id, started));
    Ok(nodes.answer(started, reply))
}

/// Records the mode in which the lease is held from now on.
fn settle(nodes: &Nodes, id: HolderId, mode: Mode, change: u64) {
    if let Some(known) = nodes.leases.lock().get_mut(id) {
        (known.claim.mode, known.claim.change) = (mode, change);
    }
}
