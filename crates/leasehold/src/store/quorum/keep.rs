//! Keep: moves the deadlines of many leases on all nodes, says who holds, and restores leases that
//! a node lacks.
//!
//! A call waits a little for the slower nodes, even if a majority has answered. The keeper makes
//! the call, so no caller waits. The slower replies matter: a node that lacks the lease gets it
//! back, so that the lease outlives the nodes that have it now.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::quorum::{NodeVote, RenewTally};
use leasehold_core::{
    Action, Answer, Instant, Keep, LockName, Operation, Reply, Request, StoreError, StoreErrorKind,
    Take,
};

use super::fan_out::FanOut;
use super::node::Result;
use super::nodes::{Nodes, default_timeout};
use crate::clock::within;

/// A lease to keep.
type Lease = (LockName, Keep);

/// Keeps many leases in one call to each node.
pub(super) async fn many(nodes: &Arc<Nodes>, leases: Vec<Lease>) -> Result<Answer> {
    let started = nodes.clock.now();
    let shortest = leases.iter().map(|(_, keep)| keep.ttl).min().unwrap_or_default();
    let enough = started + default_timeout(shortest);
    for (_, keep) in &leases {
        if let Some(known) = nodes.leases.lock().get_mut(keep.request.id) {
            // A shorter ttl takes nothing back: a node may keep the lease for the longer ttl.
            known.ttl = known.ttl.max(keep.ttl);
            known.hear();
        }
    }
    let (mut tallies, mut errors) = (vec![nodes.tally(); leases.len()], Vec::new());
    let mut fan_out = FanOut::<Vec<NodeVote>>::new(nodes, started + nodes.patience());
    for index in 0..nodes.len() {
        fan_out.add(index, keep_at(nodes, index, &leases));
    }
    let all = async {
        while let Some((_, outcome)) = fan_out.next().await {
            count(&mut tallies, &mut errors, outcome);
        }
    };
    within(&*nodes.clock, enough, pin!(all)).await;
    while !tallies.iter().all(RenewTally::is_certain)
        && let Some((_, outcome)) = fan_out.next().await
    {
        count(&mut tallies, &mut errors, outcome);
    }
    let replies: Vec<Reply> = leases
        .iter()
        .zip(&tallies)
        .map(|((_, keep), tally)| reply(nodes, started, keep, tally))
        .collect();
    // Too few nodes answered to confirm any of the leases, or its end.
    let is_undecided = |reply: &Reply| matches!(reply, Reply::Busy { .. });
    if !replies.is_empty() && replies.iter().all(is_undecided) {
        let why = format!("fewer than {} of {} nodes answered", nodes.needed, nodes.len());
        let unanswered = || StoreError::new(StoreErrorKind::Timeout, why);
        let refusal = nodes.refusal("the renewal", &errors);
        return Err(refusal.unwrap_or_else(unanswered).maybe_executed());
    }
    Ok(Answer::untimed(Reply::Many(replies)))
}

/// Counts the votes of one node on each lease.
fn count(tallies: &mut [RenewTally], errors: &mut Vec<StoreError>, outcome: Result<Vec<NodeVote>>) {
    match outcome {
        Ok(votes) => tallies.iter_mut().zip(votes).for_each(|(tally, vote)| tally.add(vote)),
        Err(error) => errors.push(error),
    }
}

/// Keeps one lease.
pub(super) async fn one(nodes: &Arc<Nodes>, name: &LockName, keep: Keep) -> Result<Answer> {
    let mut answer = many(nodes, vec![(name.clone(), keep)]).await?;
    if let Reply::Many(replies) = &mut answer.reply
        && let Some(reply) = replies.pop()
    {
        answer.reply = reply;
    }
    Ok(answer)
}

fn reply(nodes: &Nodes, started: Instant, keep: &Keep, tally: &RenewTally) -> Reply {
    let mut leases = nodes.leases.lock();
    let known = leases.get_mut(keep.request.id);
    if tally.is_extended() {
        if let Some(known) = known {
            known.until = known.until.max(started + keep.ttl);
        }
        // Nobody waits at a node.
        Reply::Kept { contended: false }
    } else if tally.is_lost() {
        // Nodes may remember that the attempt has ended. If its client has ended it, that is no
        // word of an operator.
        known.map_or(Reply::NotHeld, |_| tally.loss())
    } else {
        let undecided = Reply::Busy { retry_after: Duration::ZERO };
        tally.refusal().map_or(undecided, Reply::Refused)
    }
}

/// Keeps leases at one node, and restores those that the node lacks.
async fn keep_at(nodes: &Nodes, index: usize, leases: &[Lease]) -> Result<Vec<NodeVote>> {
    let operation = Operation::Keep(leases.to_vec());
    let timed = nodes.nodes[index].ask_anyway(operation).await?;
    let Reply::Many(replies) = &timed.answer.reply else {
        return Ok(vec![NodeVote::Nothing; leases.len()]);
    };
    let each = leases.iter().zip(replies).map(|(lease, reply)| async move {
        match NodeVote::from(reply) {
            NodeVote::NotHeld => restore(nodes, index, lease).await,
            vote @ (NodeVote::Held
            | NodeVote::Nothing
            | NodeVote::Refused(_)
            | NodeVote::Revoked) => vote,
        }
    });
    Ok(join_all(each).await)
}

/// Restores a lease at a node that lacks it: the node was restarted, could not be reached for as
/// long as the lease lasts, or has not heard of the acquire. A node that grants nothing, because it
/// may have forgotten something, gives the lease back by its token.
async fn restore(nodes: &Nodes, index: usize, (name, keep): &Lease) -> NodeVote {
    let node = &nodes.nodes[index];
    for claims in [true, false] {
        if claims && !node.store.inner.capabilities().reclaims {
            continue;
        }
        let Some(take) = restoring(nodes, index, keep, claims) else { return NodeVote::NotHeld };
        let action = Action::Take(take);
        match node.ask(Operation::On { name: name.clone(), action }).await {
            Ok(timed) if matches!(timed.answer.reply, Reply::Granted(_)) => return NodeVote::Held,
            Ok(_) => {}
            Err(_) => return NodeVote::Nothing,
        }
    }
    NodeVote::NotHeld
}

/// The request that restores a lease, if this client may still do so.
fn restoring(nodes: &Nodes, index: usize, keep: &Keep, claims: bool) -> Option<Take> {
    let mut leases = nodes.leases.lock();
    let known = leases.get_mut(keep.request.id)?;
    // After the end of the lease, somebody else may have held. A description takes no lease.
    if nodes.clock.now() >= known.until || keep.ttl.is_zero() {
        return None;
    }
    // From now on, a release must expect this request to arrive after the release.
    known.send_again(index);
    let told = keep.description.as_ref().or(keep.known.as_ref());
    let info = Arc::clone(told.map_or(&keep.request.info, |told| &told.info));
    let request = Request::new(keep.request.id, keep.request.mode, info);
    let take = Take::new(request, keep.ttl);
    Some(match claims {
        true => take.with_claim(Some(known.token)),
        false => take.with_ballot(nodes.records_tokens().then(|| known.token.micros())),
    })
}
