//! Release, cancel and revoke: an attempt ends on all nodes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{NOT_AFTER, TOMBSTONE_LIFE};
use leasehold_core::{
    Action, Answer, Cancelled, FencingToken, HoldState, Holder, HolderId, LockName, Operation,
    Reply, StoreError,
};

use super::cleanup;
use super::fan_out::{Replies, ask};
use super::messages::publish_release;
use super::nodes::Nodes;

/// Ends a hold on all nodes. As soon as the outcome is certain, returns it, and publishes the
/// release.
pub(super) async fn release(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    cooldown: Duration,
    unanswered: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let reply = match cleanup::is_pending(nodes, id) {
        // The release was sent before, and too few nodes have answered.
        true => {
            cleanup::until_done(nodes, name, id).await?;
            Reply::Released
        }
        false => released(nodes, name, id, cooldown, unanswered).await?,
    };
    if reply == Reply::Released && cooldown.is_zero() {
        publish_release(nodes, name);
    }
    Ok(nodes.answer(started, reply))
}

async fn released(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    cooldown: Duration,
    unanswered: bool,
) -> Result<Reply, StoreError> {
    let known = nodes.leases.lock().remove(id);
    let ttl = known.as_ref().map_or(NOT_AFTER, |known| known.ttl);
    let release = |index: usize| {
        // An acquire that is still on its way to the node must find that the attempt has ended.
        let may_arrive = known.as_ref().is_some_and(|known| known.unanswered[index]);
        (index, Action::Release { id, cooldown, unanswered: unanswered || may_arrive })
    };
    let actions = (0..nodes.len()).map(release).collect();
    let mut incoming = cleanup::start(nodes, name, id, actions, ttl)?;
    let mut replies = Replies::default();
    while let Some((_, outcome)) = incoming.recv().await {
        replies.add(outcome);
        if replies.count(|reply| *reply == Reply::Released) >= nodes.needed {
            return Ok(Reply::Released);
        }
        let tally = replies.tally(nodes);
        if tally.is_lost() {
            return Ok(tally.loss());
        }
    }
    Err(replies.undecided(nodes, name.as_str()))
}

/// Ends an attempt on all nodes.
pub(super) async fn cancel(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    unanswered: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let ttl = nodes.leases.lock().remove(id).map_or(NOT_AFTER, |known| known.ttl);
    if nodes.leases.lock().end(id, started, started + ttl.max(TOMBSTONE_LIFE)) {
        // The cancel was sent before, and no majority ever granted the attempt.
        cleanup::until_done(nodes, name, id).await?;
        return Ok(nodes.answer(started, Reply::Cancelled(Cancelled::Unknown)));
    }
    let cancel = |index| (index, Action::Cancel { id, unanswered });
    let actions = (0..nodes.len()).map(cancel).collect();
    let mut incoming = cleanup::start(nodes, name, id, actions, ttl)?;
    let mut replies = Replies::default();
    while replies.answers.len() < nodes.needed
        && let Some((_, outcome)) = incoming.recv().await
    {
        replies.add(outcome);
    }
    if replies.answers.len() < nodes.needed {
        return Err(replies.undecided(nodes, name.as_str()));
    }
    let released = Reply::Cancelled(Cancelled::Released);
    if replies.answers.contains(&released) {
        publish_release(nodes, name);
        return Ok(nodes.answer(started, released));
    }
    Ok(nodes.answer(started, Reply::Cancelled(Cancelled::Unknown)))
}

/// Ends the hold with this token, for an operator.
pub(super) async fn revoke(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    token: FencingToken,
    force: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let on = |action| Operation::On { name: name.clone(), action };
    let said = |replies: &Replies, yes| replies.count(|reply| *reply == Reply::Revoked(yes));
    let is_certain =
        |replies: &Replies| said(replies, true).max(said(replies, false)) >= nodes.needed;
    let replies = ask(nodes, on(Action::Revoke { id, token, force }), is_certain).await;
    if replies.answers.len() < nodes.needed {
        return Err(replies.undecided(nodes, name.as_str()));
    }
    let was_held = match said(&replies, true) {
        0 => false,
        some if some >= nodes.needed => true,
        // If a majority still has this hold unrevoked, these nodes have refused the token because
        // its holder has passed the lease on; the other nodes do not know that yet. Then nobody is
        // asked to stop, and the operator has to inspect the name again.
        _ => {
            let is_it = |holder: &Holder| holder.id == id && holder.state != HoldState::Revoked;
            let has_it = |reply: &Reply| match reply {
                Reply::Status(status) => status.holders.iter().any(is_it),
                _ => false,
            };
            let is_certain = |replies: &Replies| replies.count(has_it) >= nodes.needed;
            !is_certain(&ask(nodes, on(Action::Inspect { limit: u32::MAX }), is_certain).await)
        }
    };
    if was_held && force {
        publish_release(nodes, name);
    }
    Ok(nodes.answer(started, Reply::Revoked(was_held)))
}
