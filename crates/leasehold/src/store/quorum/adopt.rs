//! Adopt: a round like that of an acquire, in which a lease that was handed out changes hands on a
//! majority of the nodes.
//!
//! Nothing is given back while the outcome is open, because that would end the lease. The same
//! attempt is sent again, and nodes that have it give the same reply again.

use std::sync::Arc;

use leasehold_core::quorum::{Verdict, Vote};
use leasehold_core::{Answer, HolderId, LockName, Reply, Take};

use super::acquire::AcquireRounds;
use super::node::Result;
use super::nodes::Nodes;

/// Adopts a lease.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    take: &Take,
    from: HolderId,
) -> Result<Answer> {
    let mut attempt = AcquireRounds::new(nodes, name, take);
    if let Some(answer) = attempt.without_a_round().await? {
        return Ok(answer);
    }
    let (round, verdict) = attempt.round(nodes.patience()).await;
    match verdict {
        Verdict::Agreed(token) => {
            nodes.leases.lock().remove(from);
            Ok(attempt.won(&round, token))
        }
        Verdict::Refused => {
            attempt.let_go(&round).await?;
            let is_closed = round.count(|vote| vote == Vote::Closed) > 0
                && round.count(|vote| matches!(vote, Vote::Busy(_))) == 0;
            Ok(Answer::untimed(match round.refusal() {
                Some(refusal) => Reply::Refused(refusal),
                None if is_closed => Reply::Closed,
                None => attempt.without.loss(),
            }))
        }
        Verdict::Commit { .. } | Verdict::Open | Verdict::TooFew => {
            let granted = round.count(|vote| matches!(vote, Vote::Granted(_)));
            attempt.lost(&round, &verdict).map_err(|error| match granted {
                0 => error,
                _ => error.maybe_executed(),
            })
        }
    }
}
