//! Renew: moves the deadlines of many leases on all nodes, and restores leases that a node has
//! forgotten. Describe: changes what a holder says about itself.
//!
//! A call waits a little for the slower nodes, even if a majority has answered. The keeper makes
//! the call, so no caller waits. The slower replies matter: if a fast node dies, the validity
//! depends on them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select};
use leasehold_core::quorum::{NodeHold, NodeVote, RenewTally, quorum_validity};
use leasehold_core::time::micros;
use leasehold_core::{
    Acquire, Action, Answer, FencingToken, Grant, HolderId, HolderInfo, Instant, LockName, Mode,
    Operation, Reclaim, RenewLease, Reply, StoreError, StoreErrorKind,
};

use super::fan_out::{FanOut, ask};
use super::leases::{granted, held};
use super::nodes::{Nodes, default_timeout};
use crate::store::clocked::TimedAnswer;

/// Renews many leases in one call to each node.
pub(super) async fn renew(
    nodes: &Arc<Nodes>,
    renewals: Vec<RenewLease>,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let shortest = renewals.iter().map(|renewal| renewal.ttl).min().unwrap_or_default();
    let enough = nodes.clock.sleep_until(started + default_timeout(shortest));
    let (mut tallies, mut errors) = (vec![nodes.tally(); renewals.len()], Vec::new());
    let mut fan_out = FanOut::<Vec<NodeVote>>::new(nodes, started + nodes.patience());
    for index in 0..nodes.len() {
        fan_out.add(index, renew_at(nodes, index, &renewals));
    }
    let all = async {
        while let Some((_, outcome)) = fan_out.next().await {
            count(&mut tallies, &mut errors, outcome);
        }
    };
    select(std::pin::pin!(all), enough).await;
    while !tallies.iter().all(RenewTally::is_certain)
        && let Some((_, outcome)) = fan_out.next().await
    {
        count(&mut tallies, &mut errors, outcome);
    }
    let replies: Vec<Reply> = renewals
        .iter()
        .zip(&tallies)
        .map(|(renewal, tally)| reply(nodes, started, renewal, tally))
        .collect();
    if !replies.is_empty() && replies.iter().all(is_undecided) {
        let why = format!("fewer than {} of {} nodes answered", nodes.needed, nodes.len());
        let unanswered = || StoreError::new(StoreErrorKind::Timeout, why);
        let refusal = nodes.refusal("the renewal", &errors);
        return Err(refusal.unwrap_or_else(unanswered).maybe_executed());
    }
    Ok(nodes.answer(started, Reply::Many(replies)))
}

/// Counts the votes of one node on each lease.
fn count(
    tallies: &mut [RenewTally],
    errors: &mut Vec<StoreError>,
    outcome: Result<Vec<NodeVote>, StoreError>,
) {
    match outcome {
        Ok(votes) => tallies.iter_mut().zip(votes).for_each(|(tally, vote)| tally.add(vote)),
        Err(error) => errors.push(error),
    }
}

/// Renews one lease.
pub(super) async fn renew_one(
    nodes: &Arc<Nodes>,
    renewal: RenewLease,
) -> Result<Answer, StoreError> {
    let mut answer = renew(nodes, vec![renewal]).await?;
    if let Reply::Many(replies) = &mut answer.reply
        && let Some(reply) = replies.pop()
    {
        answer.reply = reply;
    }
    Ok(answer)
}

/// Replies whether a lease is held, and renews it. A quorum has no queue, so an attempt that was
/// not granted is gone.
pub(super) async fn poll(
    nodes: &Arc<Nodes>,
    name: LockName,
    id: HolderId,
    ttl: Duration,
) -> Result<Answer, StoreError> {
    if nodes.leases.lock().get(id).is_none() {
        return Ok(nodes.answer(nodes.clock.now(), Reply::Gone));
    }
    let mut answer = renew_one(nodes, RenewLease::new(name, id, ttl)).await?;
    if let Reply::NotHeld { .. } | Reply::Revoked(_) = answer.reply {
        answer.reply = Reply::Gone;
    }
    Ok(answer)
}

/// Whether too few nodes answered to confirm a lease or its end.
fn is_undecided(reply: &Reply) -> bool {
    matches!(reply, Reply::Busy { .. })
}

fn reply(nodes: &Nodes, started: Instant, renewal: &RenewLease, tally: &RenewTally) -> Reply {
    if tally.is_lost() {
        return tally.loss();
    }
    let refused = tally.refusal().map(Reply::Refused);
    let undecided = refused.unwrap_or(Reply::Busy { retry_after: Duration::ZERO });
    let mut leases = nodes.leases.lock();
    let Some(known) = leases.get_mut(renewal.id) else { return undecided };
    let until = started + quorum_validity(&known.holds, nodes.needed, started);
    if !tally.is_extended() && until <= known.until {
        return undecided;
    }
    known.until = known.until.max(until);
    let deadline_us = micros(until.since_origin());
    Reply::Granted(Grant::new(known.token, deadline_us))
}

/// Changes the facts of a holder on all nodes.
pub(super) async fn describe(
    nodes: &Nodes,
    name: &LockName,
    id: HolderId,
    info: HolderInfo,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let held = nodes.leases.lock().get_mut(id).map(|known| {
        // A late request of a former holder, which has passed the lease on, changes nothing.
        if info.passed_on().times >= known.info.passed_on().times {
            known.info = info.clone();
        }
        Grant::new(known.token, micros(known.until.since_origin()))
    });
    let operation = Operation::On { name: name.clone(), action: Action::Describe { id, info } };
    let replies = ask(nodes, operation, |replies| replies.tally(nodes).is_certain()).await;
    let tally = replies.tally(nodes);
    match held {
        Some(grant) if tally.is_extended() => Ok(nodes.answer(started, Reply::Granted(grant))),
        Some(_) | None if tally.is_lost() => Ok(nodes.answer(started, tally.loss())),
        Some(_) | None => Err(replies.undecided(nodes, name.as_str())),
    }
}

/// Renews leases at one node, and restores those that the node has forgotten.
async fn renew_at(
    nodes: &Nodes,
    index: usize,
    renewals: &[RenewLease],
) -> Result<Vec<NodeVote>, StoreError> {
    let operation = Operation::Renew(renewals.to_vec());
    let timed = nodes.nodes[index].ask_anyway(operation).await?;
    let Reply::Many(replies) = &timed.answer.reply else {
        return Ok(vec![NodeVote::Nothing; renewals.len()]);
    };
    let timed = &timed;
    let each = renewals.iter().zip(replies).map(|(renewal, reply)| async move {
        if let Reply::Granted(grant) = reply {
            note(nodes, index, renewal, timed, grant);
        }
        match NodeVote::from(reply) {
            NodeVote::NotHeld(newest) => reclaim(nodes, index, renewal, newest).await,
            vote @ (NodeVote::Held
            | NodeVote::Nothing
            | NodeVote::Refused(_)
            | NodeVote::Revoked) => vote,
        }
    });
    Ok(join_all(each).await)
}

/// Records a lease that a node holds.
fn note(nodes: &Nodes, index: usize, renewal: &RenewLease, timed: &TimedAnswer, grant: &Grant) {
    if let Some(known) = nodes.leases.lock().get_mut(renewal.id) {
        // A shorter ttl takes nothing back: the node may keep the lease for the longer ttl.
        known.ttl = known.ttl.max(renewal.ttl);
        known.holds[index] = held(timed, grant);
    }
}

/// Restores a lease at a node that does not hold it, if there was no later holder. Such a node was
/// restarted, or could not be reached for as long as the lease lasts.
async fn reclaim(
    nodes: &Nodes,
    index: usize,
    renewal: &RenewLease,
    newest: Option<FencingToken>,
) -> NodeVote {
    let Some(request) = claim(nodes, index, renewal, newest) else {
        return NodeVote::NotHeld(newest);
    };
    let operation = Operation::On { name: renewal.name.clone(), action: Action::Reclaim(request) };
    let Ok(timed) = nodes.nodes[index].ask(operation).await else {
        return NodeVote::Nothing;
    };
    let hold = granted(&timed).map_or(NodeHold::NotHeld, |(_, hold)| hold);
    if let Some(known) = nodes.leases.lock().get_mut(renewal.id) {
        known.holds[index] = hold;
    }
    NodeVote::from(&timed.answer.reply)
}

/// The request that restores a lease, if this client may still do so.
fn claim(
    nodes: &Nodes,
    index: usize,
    renewal: &RenewLease,
    newest: Option<FencingToken>,
) -> Option<Reclaim> {
    let now = nodes.clock.now();
    let mut leases = nodes.leases.lock();
    let known = leases.get_mut(renewal.id)?;
    known.holds[index] = NodeHold::NotHeld;
    // After the end of the lease, another holder may have come and gone, on nodes that have
    // forgotten that holder since.
    if now >= known.until || newest.is_some_and(|newest| newest > known.token) {
        return None;
    }
    let left = known.until.saturating_since(now);
    let request = Acquire::new(renewal.id, Mode::Exclusive, renewal.ttl)
        .with_nonce(known.nonce)
        .with_not_after(nodes.nodes[index].not_after_us(&renewal.name, now, left)?)
        .with_info(known.info.clone());
    let request = Reclaim::new(known.token, request);
    // From now on, a release must expect this request to arrive after the release.
    known.holds[index] = NodeHold::Open;
    known.unanswered[index] = true;
    Some(request)
}
