//! Adopt: a round like that of an acquire, in which a lease that was handed out changes hands on a
//! majority of the nodes.
//!
//! Nothing is given back while it is open whether it is won: the lease would end with it. The same
//! attempt is asked for again, and nodes that have it reply the same again.

use std::sync::Arc;

use leasehold_core::quorum::{RenewTally, Verdict, Vote};
use leasehold_core::time::micros;
use leasehold_core::{Acquire, Adopt, Answer, HolderId, LockName, Reply, StoreError};

use super::acquire::AcquireRounds;
use super::handed_out::HandedOut;
use super::nodes::Nodes;
use super::unsupported::nested;

/// Adopts a lease.
pub(super) async fn run(
    nodes: &Arc<Nodes>,
    name: &LockName,
    request: &Adopt,
) -> Result<Answer, StoreError> {
    let Some(token) = request.token else { return Err(nested(name)) };
    // So that the new token is a higher one in the first round.
    nodes.ballots().saw(token);
    let asked = Acquire::new(request.id, request.mode, request.ttl)
        .with_nonce(request.nonce)
        .with_not_after(request.not_after_us)
        .with_info(request.info.clone());
    let mut attempt = AcquireRounds::new(nodes, name, &asked);
    attempt.lease = Some(HandedOut { holder: request.from, token });
    attempt.adopt(request.from).await
}

impl AcquireRounds<'_> {
    async fn adopt(mut self, from: HolderId) -> Result<Answer, StoreError> {
        let (nodes, started, id) = (self.nodes, self.started, self.request.id);
        if micros(started.since_origin()) > self.request.not_after_us {
            return Ok(nodes.answer(started, Reply::Late));
        }
        if nodes.leases().is_over(id) {
            return Ok(nodes.answer(started, Reply::Stale));
        }
        let is_copy = nodes.leases().get(id).is_some();
        if is_copy {
            return self.again().await;
        }
        let (round, verdict) = self.round(nodes.patience()).await;
        match verdict {
            Verdict::Agreed(token) => {
                nodes.leases().remove(from);
                Ok(self.won(token))
            }
            Verdict::Refused => {
                self.let_go(&round).await?;
                let refusal = round.votes().iter().find_map(|vote| match vote {
                    Vote::Refused(refusal) => Some(*refusal),
                    Vote::Busy(_) | Vote::Granted(_) | Vote::Open => None,
                    Vote::Silent(_) | Vote::Stale => None,
                });
                let is_stale = round.count(|vote| vote == Vote::Stale) > 0
                    && round.count(|vote| matches!(vote, Vote::Busy(_))) == 0;
                let reply = match refusal {
                    Some(refusal) => Reply::Refused(refusal),
                    None if is_stale => Reply::Stale,
                    None => not_there(&self.without),
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

/// The reply where no majority has the lease any more.
fn not_there(without: &RenewTally) -> Reply {
    match without.is_revoked() {
        false => Reply::NotHeld { newest: without.newest() },
        true => Reply::Revoked(true),
    }
}
