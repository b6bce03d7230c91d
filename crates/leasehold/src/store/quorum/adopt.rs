//! Adopt: a round like that of an acquire, in which a lease that was handed out changes hands on a
//! majority of the nodes.
//!
//! Nothing is given back while the outcome is open, because that would end the lease. The same
//! attempt is sent again, and nodes that have it give the same reply again.

use std::sync::Arc;

use leasehold_core::quorum::{Verdict, Vote};
use leasehold_core::{Adopt, Answer, HolderId, LockName, Reply, StoreError};

use super::acquire::AcquireRounds;
use super::leases::HandedOut;
use super::nested;
use super::nodes::Nodes;

/// Adopts a lease.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    adopt: &Adopt,
) -> Result<Answer, StoreError> {
    let Some(token) = adopt.token else { return Err(nested(name)) };
    // So the new token is higher than the adopted one already in the first round.
    nodes.ballots.lock().saw(token);
    let mut attempt = AcquireRounds::new(nodes, name, &adopt.request);
    attempt.lease = Some(HandedOut { holder: adopt.from, token });
    attempt.adopt(adopt.from).await
}

impl AcquireRounds<'_> {
    async fn adopt(mut self, from: HolderId) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.started);
        if let Some(answer) = self.without_a_round().await? {
            return Ok(answer);
        }
        let (round, verdict) = self.round(nodes.patience()).await;
        match verdict {
            Verdict::Agreed(token) => {
                nodes.leases.lock().remove(from);
                Ok(self.won(token))
            }
            Verdict::Refused => {
                self.let_go(&round).await?;
                let is_stale = round.count(|vote| vote == Vote::Stale) > 0
                    && round.count(|vote| matches!(vote, Vote::Busy(_))) == 0;
                let reply = match round.refusal() {
                    Some(refusal) => Reply::Refused(refusal),
                    None if is_stale => Reply::Stale,
                    None => self.without.loss(),
                };
                Ok(nodes.answer(started, reply))
            }
            Verdict::Commit { .. } | Verdict::Open | Verdict::TooFew => {
                let granted = round.count(|vote| matches!(vote, Vote::Granted(_)));
                self.lost(&round, &verdict).map_err(|error| match granted {
                    0 => error,
                    _ => error.maybe_executed(),
                })
            }
        }
    }
}
