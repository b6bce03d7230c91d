//! Revoke: an operator ends a hold on all nodes.

use std::sync::Arc;

use leasehold_core::{Action, Answer, FencingToken, HolderId, LockName, Reply, StoreError};

use super::nodes::Nodes;
use super::replies::ask;
use super::subscription::publish_release;

/// An operator ends the hold with this token.
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
    let was_held = replies.count(|reply| *reply == Reply::Revoked(true)) > 0;
    if was_held && force {
        publish_release(nodes, name);
    }
    Ok(nodes.answer(started, Reply::Revoked(was_held)))
}
