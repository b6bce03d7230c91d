//! A store made of stores: the conformance suite, contention, and faults of its nodes.

mod adopting;
mod clocks;
mod conformance;
mod contention;
mod fleet;
mod identity;
mod late;
mod memory_loss;
mod minorities;
mod outage;
mod permanent;
mod refusals;
mod renewals;
mod replicated_nodes;
mod same_attempt;
mod taken;

use leasehold::error::StoreErrorKind;
use leasehold::{Error, Guard, Result};

/// Whether no lease was granted: somebody else holds it, or too few nodes granted it.
fn is_not_had(tried: &Result<Option<Guard>>) -> bool {
    match tried {
        Ok(guard) => guard.is_none(),
        Err(error) => is_no_quorum(error),
    }
}

fn is_no_quorum(error: &Error) -> bool {
    matches!(error, Error::Store(error) if matches!(error.kind(), StoreErrorKind::NoQuorum { .. }))
}
