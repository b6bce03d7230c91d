//! The times that the file store keeps to unless it is asked for others.

use std::time::Duration;

use leasehold_core::model::{DEFAULT_RETENTION, Rules};

/// Most waiters are silent for 10 s, so that a hundred of them cost less than one hundredth of a
/// processor. Elsewhere polls find lost messages and deaths; here a message is lost only with the
/// process that sent it, and a waiter is woken by the deaths that concern it. What is left to polls
/// are waiters that hang.
pub(super) const RULES: Rules =
    Rules::new(DEFAULT_RETENTION).with_longest_silence(Duration::from_secs(10));
