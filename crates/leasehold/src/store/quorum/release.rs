//! Release and cancel: an attempt ends on all nodes.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{NOT_AFTER, TOMBSTONE_LIFE};
use leasehold_core::{Action, Answer, Cancelled, HolderId, LockName, Reply, StoreError};

use super::cleanup;
use super::nodes::Nodes;
use super::replies::Replies;
use super::subscription::publish_release;

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
    if nodes.nodes.iter().any(|node| node.cleanups.contains(id)) {
        // The release was sent before, and too few nodes have answered.
        cleanup::until_done(nodes, name, id).await?;
        if cooldown.is_zero() {
            publish_release(nodes, name);
        }
        return Ok(nodes.answer(started, Reply::Released));
    }
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
    while let Some(each) = incoming.recv().await {
        replies.add(each);
        if replies.count(|reply| *reply == Reply::Released) >= nodes.needed {
            if cooldown.is_zero() {
                publish_release(nodes, name);
            }
            return Ok(nodes.answer(started, Reply::Released));
        }
        if let Some(loss) = replies.loss(nodes) {
            return Ok(nodes.answer(started, loss));
        }
    }
    Err(replies.undecided(nodes, name))
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
        && let Some(each) = incoming.recv().await
    {
        replies.add(each);
    }
    if replies.answers.len() < nodes.needed {
        return Err(replies.undecided(nodes, name));
    }
    let is = |what| replies.count(|reply| *reply == Reply::Cancelled(what)) > 0;
    let cancelled = if is(Cancelled::Released) { Cancelled::Released } else { Cancelled::Unknown };
    if cancelled == Cancelled::Released {
        publish_release(nodes, name);
    }
    Ok(nodes.answer(started, Reply::Cancelled(cancelled)))
}
