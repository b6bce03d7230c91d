//! Describe: the facts of a holder change on all nodes.

use std::sync::Arc;

use leasehold_core::{Action, Answer, HolderId, HolderInfo, LockName, StoreError};

use super::nodes::Nodes;
use super::replies::ask_holders;

pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    id: HolderId,
    info: HolderInfo,
) -> Result<Answer, StoreError> {
    let started = nodes.clock.now();
    if let Some(known) = nodes.leases.lock().get_mut(id) {
        // A late request of a former holder, which has passed the lease on, changes nothing.
        if info.passed_on().times >= known.info.passed_on().times {
            known.info = info.clone();
        }
    }
    let replies = ask_holders(nodes, name, Action::Describe { id, info }).await;
    replies.granted_or_lost(nodes, name, id, started)
}
