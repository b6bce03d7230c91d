//! A change of mode on all nodes: a reader becomes the writer, or a writer a reader.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{BALLOT_LEAD, NOT_AFTER};
use leasehold_core::quorum::{NodeHold, quorum_validity};
use leasehold_core::time::micros;
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
    let action = Action::ChangeMode { id, mode, change };
    let replies = match mode {
        Mode::Exclusive => ask_writers(nodes, name, action).await,
        _ => ask_holders(nodes, name, action).await,
    };
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

/// Asks all nodes until a majority of writers can agree on a token, or no majority can have the
/// lease.
async fn ask_writers(nodes: &Arc<Nodes>, name: &LockName, action: Action) -> Replies {
    let is_certain = |replies: &Replies| {
        let can_agree = lowest_common(nodes, replies).is_some_and(|common| {
            // A node refuses to commit a token so far above its own. With another writer, a lower
            // token may do.
            let lowest_us = replies.tokens().min().map_or(0, FencingToken::micros);
            common.micros() <= lowest_us.saturating_add(micros(BALLOT_LEAD))
        });
        can_agree || replies.loss(nodes).is_some()
    };
    ask(nodes, name, action, is_certain).await
}

/// The lowest token that a majority of writers can take. A writer with a higher token is not
/// needed: the clock of its node is ahead. If the others took that token, it would spread a wrong
/// clock to all nodes.
fn lowest_common(nodes: &Nodes, replies: &Replies) -> Option<FencingToken> {
    let mut tokens: Vec<FencingToken> = replies.tokens().collect();
    tokens.sort_unstable();
    tokens.get(nodes.needed - 1).copied()
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
    let token = lowest_common(nodes, replies).unwrap_or(FencingToken::from_micros(0));
    let writers: Vec<usize> = replies.holds().map(|(index, ..)| index).collect();
    let agreed = |replies: &Replies| {
        let agreed = replies.holds().filter(|(at, of, _)| *of == token && writers.contains(at));
        agreed.map(|(index, _, hold)| (index, hold)).collect::<Vec<_>>()
    };
    let is_certain =
        |replies: &Replies| agreed(replies).len() >= nodes.needed || replies.loss(nodes).is_some();
    // A renewal of the reader's lease that was sent after the first commit may have told the holder
    // a later end. The second commit is sent after each such renewal.
    for _ in 0..2 {
        let ttl = nodes.leases.lock().get(id).map_or(NOT_AFTER, |known| known.ttl);
        let committed = ask(nodes, name, Action::Commit { id, token, ttl }, is_certain).await;
        let agreed = agreed(&committed);
        if agreed.len() < nodes.needed {
            return match committed.loss(nodes) {
                Some(loss) => Ok(nodes.answer(started, loss)),
                // If the holder asks again, it is the writer already, and the nodes only have to
                // agree on the token.
                None => Err(committed.undecided(nodes, name)),
            };
        }
        nodes.ballots.lock().saw(token);
        settle(nodes, id, Mode::Exclusive, change);
        if write_at(nodes, id, token, started, agreed) {
            let reply = Reply::Granted(committed.unchanged(nodes, id, started));
            return Ok(nodes.answer(started, reply));
        }
    }
    Err(replies.undecided(nodes, name))
}

/// Records the only nodes that count from now on. Returns false if they keep the lease for a
/// shorter time than the holder was told.
fn write_at(
    nodes: &Nodes,
    id: HolderId,
    token: FencingToken,
    started: Instant,
    agreed: Vec<(usize, NodeHold)>,
) -> bool {
    let mut leases = nodes.leases.lock();
    let Some(known) = leases.get_mut(id) else { return true };
    known.token = token;
    known.holds.fill(NodeHold::NotHeld);
    agreed.into_iter().for_each(|(index, hold)| known.holds[index] = hold);
    let until = started + quorum_validity(&known.holds, nodes.needed, started);
    let is_as_told = until >= known.until;
    known.until = known.until.max(until);
    is_as_told
}

/// Records the mode in which the lease is held from now on.
fn settle(nodes: &Nodes, id: HolderId, mode: Mode, change: u64) {
    if let Some(known) = nodes.leases.lock().get_mut(id) {
        (known.claim.mode, known.claim.change) = (mode, change);
    }
}
