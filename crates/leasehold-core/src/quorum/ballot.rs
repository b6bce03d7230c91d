//! Ballots: the tokens that a caller proposes to several nodes.

use crate::model::BALLOT_LEAD;
use crate::time::micros;
use crate::token::FencingToken;

/// A clock that every seen token moves forward, as long as nodes can accept the result.
///
/// It uses the clocks of the nodes, and not the clock of this machine. So a caller whose clock is
/// wrong neither starves nor spoils the tokens of others. The median of the nodes' clocks counts,
/// so a minority of wrong clocks does not matter either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ballots {
    highest_us: u64,
}

impl Ballots {
    /// A ballot that is higher than all earlier ballots and all seen tokens, if nodes can accept
    /// that.
    ///
    /// `clocks_us` are the present times of the nodes' clocks, as far as they are known. Until one
    /// is known, the wall clock of this machine is used.
    pub fn next(&mut self, clocks_us: impl IntoIterator<Item = u64>, wall_us: u64) -> u64 {
        let middle_us = middle(clocks_us).unwrap_or(wall_us);
        let next_us = middle_us.max(self.highest_us.saturating_add(1));
        // The limit is half of the lead that nodes allow, because their clocks differ. A higher
        // value came from a clock that has been corrected since, and would be refused. Nodes raise
        // a ballot that is too low.
        let is_believed = next_us <= middle_us.saturating_add(micros(BALLOT_LEAD) / 2);
        self.highest_us = if is_believed { next_us } else { middle_us };
        self.highest_us
    }

    /// Records a token, so that the next ballot is higher.
    pub fn saw(&mut self, token: FencingToken) {
        self.highest_us = self.highest_us.max(token.micros());
    }
}

/// The median; of two middle values, the lower one.
fn middle(values: impl IntoIterator<Item = u64>) -> Option<u64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;
    const HOUR_US: u64 = 3_600_000_000;

    #[test]
    fn ballots_follow_the_clock_in_the_middle_and_never_come_twice() {
        let mut ballots = Ballots::default();
        let clocks = || [NOW_US, NOW_US + HOUR_US, NOW_US - HOUR_US];
        assert_eq!(ballots.next(clocks(), 7), NOW_US);
        assert_eq!(ballots.next(clocks(), 7), NOW_US + 1);
        assert_eq!(ballots.next([NOW_US + 50; 3], 7), NOW_US + 50);
    }

    #[test]
    fn until_a_node_was_heard_the_wall_clock_must_do() {
        assert_eq!(Ballots::default().next([], NOW_US), NOW_US);
    }

    #[test]
    fn a_token_moves_ballots_on_unless_nodes_would_refuse_them() {
        let mut ballots = Ballots::default();
        ballots.saw(FencingToken::from_micros(NOW_US + 9));
        assert_eq!(ballots.next([NOW_US; 3], 0), NOW_US + 10);
        let most_us = NOW_US + micros(BALLOT_LEAD) / 2;
        ballots.saw(FencingToken::from_micros(most_us - 1));
        assert_eq!(ballots.next([NOW_US; 3], 0), most_us);
        assert_eq!(ballots.next([NOW_US; 3], 0), NOW_US);
        ballots.saw(FencingToken::from_micros(NOW_US + HOUR_US));
        assert_eq!(ballots.next([NOW_US; 3], 0), NOW_US);
    }
}
