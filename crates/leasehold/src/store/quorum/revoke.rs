//! Revoke: an operator ends a hold on all nodes.

use std::sync::Arc;

use leasehold_core::{
    Action, Answer, FencingToken, HoldState, HolderId, LockName, Reply, StoreError,
};

use super::nodes::Nodes;
use super::replies::ask;
use super::subscription::publish_release;

/// Ends the hold with this token, for an operator.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    token: FencingToken,
    force: bool,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    let replies = ask(nodes, name, Action::Revoke { id, token, force }, |replies| {
        let (yes, no) = (Reply::Revoked(true), Reply::Revoked(false));
        replies.count(|reply| *reply == yes) >= nodes.needed
            || replies.count(|reply| *reply == no) >= nodes.needed
    })
    .await;
    if replies.answers.len() < nodes.needed {
        return Err(replies.undecided(nodes, name));
    }
    let was_held = match replies.count(|reply| *reply == Reply::Revoked(true)) {
        0 => false,
        some if some < nodes.needed => !is_held_by_majority(nodes, name, id).await,
        _ => true,
    };
    if was_held && force {
        publish_release(nodes, name);
    }
    Ok(nodes.answer(started, Reply::Revoked(was_held)))
}

/// Whether a majority still has this hold unrevoked. If so, these nodes have refused the token
/// because its holder has passed the lease on; the other nodes do not know that yet. Then nobody is
/// asked to stop, and the operator has to inspect the name again.
async fn is_held_by_majority(nodes: &Arc<Nodes>, name: &LockName, id: HolderId) -> bool {
    let has_it = |reply: &Reply| match reply {
        Reply::Status(status) => status
            .holders
            .iter()
            .any(|holder| holder.id == id && holder.state != HoldState::Revoked),
        _ => false,
    };
    let look = Action::Inspect { limit: u32::MAX };
    let replies = ask(nodes, name, look, |replies| replies.count(has_it) >= nodes.needed).await;
    replies.count(has_it) >= nodes.needed
}
