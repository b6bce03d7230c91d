//! End and revoke: an attempt ends on all nodes.

use std::sync::Arc;

use leasehold_core::{Action, Answer, End, HolderId, LockName, Operation, Reply};

use super::cleanup;
use super::fan_out::{Replies, ask};
use super::leases::LATEST;
use super::messages::publish_release;
use super::node::Result;
use super::nodes::Nodes;

/// Ends an attempt on all nodes. As soon as the outcome is certain, returns it, and publishes the
/// release.
pub(super) async fn end(nodes: &Arc<Nodes>, name: &LockName, end: &End) -> Result<Answer> {
    let (id, started) = (end.request.id, nodes.clock.now());
    let (mut known, was_over) = {
        let mut leases = nodes.leases.lock();
        let (known, was_over) = (leases.remove(id), leases.is_over(id));
        if was_over {
            // The call that lets go of the attempt must not send it again.
            leases.end(id, started, started + LATEST, true);
        }
        (known, was_over)
    };
    if let Some(known) = &mut known {
        known.hear();
    }
    if known.is_none() && (was_over || cleanup::is_pending(nodes, id)) {
        // The end was sent before. No majority ever granted an attempt that was over before that.
        cleanup::until_done(nodes, name, id).await?;
        if !was_over {
            publish_release(nodes, name);
        }
        return Ok(Answer::untimed(Reply::Ended(!was_over)));
    }
    let ttl = known.as_ref().map_or(LATEST, |known| known.ttl);
    if known.is_none() {
        nodes.leases.lock().end(id, started, started + ttl, true);
    }
    let at = |index: usize| {
        // A take that is still on its way to the node must find that the attempt has ended.
        let may_arrive = known.as_ref().is_some_and(|known| known.unanswered[index]);
        (index, Action::End(end.clone().with_closes(end.closes || may_arrive)))
    };
    let actions = (0..nodes.len()).map(at).collect();
    let mut incoming = cleanup::start(nodes, name, id, actions, ttl)?;
    let mut replies = Replies::default();
    while !is_certain(&replies, nodes)
        && let Some((_, outcome)) = incoming.recv().await
    {
        replies.add(outcome);
    }
    let was_held = was_held(&replies, nodes, name)?;
    if count(&replies, true) > 0 && end.cooldown.is_zero() {
        publish_release(nodes, name);
    }
    Ok(Answer::untimed(Reply::Ended(was_held)))
}

/// Ends a hold for an operator.
pub(super) async fn revoke(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    force: bool,
) -> Result<Answer> {
    let operation = Operation::On { name: name.clone(), action: Action::Revoke { id, force } };
    let replies = ask(nodes, operation, |replies| is_certain(replies, nodes)).await;
    let was_held = was_held(&replies, nodes, name)?;
    if was_held && force {
        publish_release(nodes, name);
    }
    Ok(Answer::untimed(Reply::Ended(was_held)))
}

fn count(replies: &Replies, ended: bool) -> usize {
    replies.count(|reply| *reply == Reply::Ended(ended))
}

/// Whether a majority has ended a hold, or no majority can have had it.
fn is_certain(replies: &Replies, nodes: &Nodes) -> bool {
    count(replies, true) >= nodes.needed || count(replies, false) > nodes.len() - nodes.needed
}

/// Whether there was a hold to end, as far as the nodes that have answered know: a silent node
/// counts as if it had had the hold.
fn was_held(replies: &Replies, nodes: &Nodes, name: &LockName) -> Result<bool> {
    let (ended, nothing) = (count(replies, true), count(replies, false));
    match ended + nothing >= nodes.needed {
        true => Ok(ended > 0 && nothing <= nodes.len() - nodes.needed),
        false => Err(replies.undecided(nodes, name.as_str())),
    }
}
