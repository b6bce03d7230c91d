//! The validity of a lease that several nodes keep.

use std::time::Duration;

use crate::time::Instant;

/// The last answer of one node about one hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeHold {
    /// The node keeps the hold for `left`, counted from before the request was sent.
    Held {
        /// The time at which the request was sent.
        sent: Instant,
        /// The time left, by the clock of the node.
        left: Duration,
    },
    /// The node does not have the hold.
    NotHeld,
    /// A request was sent that may or may not have been executed.
    Open,
}

/// The time from `now` on for which `needed` nodes keep a hold: the `needed`-th longest of the
/// nodes' times.
///
/// At any moment before the end of that time, `needed` nodes refuse everybody else. The time also
/// covers renewals that reached only some nodes: the earlier answers of the other nodes still
/// count.
///
/// Twice the age of an earlier answer is subtracted from its time. The caller turns the result into
/// a validity, and subtracts the drift as if the answer had come now. Twice the age makes up for
/// that. With drift d, `(1 − d) × (left − 2 × age)` is at most `(1 − d) × left − age`, for any d up
/// to one half, the largest drift.
pub fn quorum_validity(words: &[NodeHold], needed: usize, now: Instant) -> Duration {
    let left = |word: &NodeHold| match *word {
        NodeHold::Held { sent, left } if sent >= now => sent.saturating_since(now) + left,
        NodeHold::Held { sent, left } => left.saturating_sub(now.saturating_since(sent) * 2),
        NodeHold::NotHeld | NodeHold::Open => Duration::ZERO,
    };
    let mut longest_first: Vec<Duration> = words.iter().map(left).collect();
    longest_first.sort_unstable_by(|a, b| b.cmp(a));
    longest_first.get(needed - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    fn held(sent_ms: u64, left_ms: u64) -> NodeHold {
        NodeHold::Held { sent: at(sent_ms), left: Duration::from_millis(left_ms) }
    }

    #[test]
    fn a_lease_is_kept_for_as_long_as_a_majority_keeps_it() {
        let words = [held(1000, 30_000), held(1000, 10_000), held(1000, 20_000)];
        assert_eq!(quorum_validity(&words, 2, at(1000)), Duration::from_secs(20));
        let words = [held(1000, 30_000), NodeHold::NotHeld, NodeHold::Open];
        assert_eq!(quorum_validity(&words, 2, at(1000)), Duration::ZERO);
    }

    #[test]
    fn what_is_said_after_the_moment_that_is_asked_about_counts_from_when_it_was_said() {
        let words = [held(6_000, 30_000), held(7_000, 30_000)];
        assert_eq!(quorum_validity(&words, 2, at(5_000)), Duration::from_secs(31));
    }

    #[test]
    fn a_renewal_that_reached_one_node_leaves_what_the_others_said_before() {
        let words = [held(5000, 30_000), held(1000, 30_000), NodeHold::Open];
        assert_eq!(quorum_validity(&words, 2, at(5000)), Duration::from_secs(30 - 2 * 4));
    }

    proptest! {
        /// The clocks of the nodes run faster than this one, by as much as the drift allows.
        #[test]
        fn before_its_end_a_majority_still_keeps_it(
            said in vec(prop::option::of((0_u64..5000, 1_u64..60_000)), 1..8),
            drift in 0.0_f64..0.5,
        ) {
            let needed = super::super::majority(said.len());
            let now_ms = 5000;
            let word = |(sent, left)| held(sent, left);
            let words: Vec<_> =
                said.iter().map(|said| said.map_or(NodeHold::NotHeld, word)).collect();
            let kept_ms = quorum_validity(&words, needed, at(now_ms)).as_secs_f64() * 1000.0;
            prop_assume!(kept_ms > 0.0);
            let end_ms = now_ms as f64 + kept_ms * (1.0 - drift);
            let is_kept = |(sent, left): &(u64, u64)| {
                *sent as f64 + *left as f64 * (1.0 - drift) >= end_ms - 0.001
            };
            let keepers = said.iter().flatten().filter(|said| is_kept(said)).count();
            prop_assert!(keepers >= needed, "{keepers} of {needed}");
        }
    }
}
