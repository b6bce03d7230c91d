//! The count of one round: whether it is won, lost, or still open.

use std::time::Duration;

use crate::bugs::{self, Bug};
use crate::model::BALLOT_LEAD;
use crate::request::Refusal;
use crate::time::micros;
use crate::token::FencingToken;

/// The last answer of one node to an acquire or a commit of this attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// Another attempt holds the name there, for this long.
    Busy(Duration),
    /// The attempt has ended there before.
    Closed,
    /// The node has granted this token.
    Granted(FencingToken),
    /// There is no answer yet.
    Open,
    /// The node refused to consider the request.
    Refused(Refusal),
    /// There is no answer, no connection, or an answer that says nothing about the holder. True if
    /// this attempt may still hold the name there.
    Silent(bool),
}

/// The state that a vote leaves on its node, and that must be removed if the round is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// This attempt holds the name: end it.
    Held,
    /// This attempt may hold the name, now or when a late request arrives: end and close it.
    MayBeHeld,
    /// The vote leaves nothing.
    None,
}

impl Vote {
    /// The state that this vote leaves on its node.
    pub fn trace(self) -> Trace {
        match self {
            Self::Granted(_) => Trace::Held,
            Self::Open | Self::Silent(true) => Trace::MayBeHeld,
            Self::Busy(_) | Self::Closed | Self::Refused(_) | Self::Silent(false) => Trace::None,
        }
    }

    fn token(self) -> Option<FencingToken> {
        match self {
            Self::Granted(token) => Some(token),
            Self::Busy(_) | Self::Closed | Self::Open | Self::Refused(_) | Self::Silent(_) => None,
        }
    }

    fn is_refusal(self) -> bool {
        matches!(self, Self::Busy(_) | Self::Closed | Self::Refused(_))
    }
}

/// The outcome of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The round is won: a majority holds the name for this attempt, with this token.
    Agreed(FencingToken),
    /// A majority granted, with different tokens. Commit this token on these nodes, and count their
    /// votes again. Once enough nodes have accepted it, the round is won.
    Commit {
        /// The token.
        token: FencingToken,
        /// The nodes that granted a lower token.
        nodes: Vec<usize>,
    },
    /// The round is undecided: the open votes will decide it.
    Open,
    /// The round is lost: nodes that answered refuse, and the rest is no majority. So the name is
    /// *busy*. A few silent nodes alone must never lead to this verdict.
    Refused,
    /// The round is lost: too many nodes are silent to say more.
    TooFew,
}

/// The votes of all nodes in one round of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Round {
    needed: usize,
    ballot_us: Option<u64>,
    votes: Vec<Vote>,
}

impl Round {
    /// A round over `nodes` nodes that is won once `needed` of them grant `ballot_us`.
    ///
    /// Without a ballot, the nodes are of a kind that remembers no tokens. The attempt that holds a
    /// majority has won, with the highest token that a node granted.
    pub fn new(nodes: usize, needed: usize, ballot_us: Option<u64>) -> Self {
        Self { needed, ballot_us, votes: vec![Vote::Open; nodes] }
    }

    /// Counts the vote of one node, in place of its earlier vote.
    pub fn vote(&mut self, node: usize, vote: Vote) {
        if let Some(counted) = self.votes.get_mut(node) {
            *counted = vote;
        }
    }

    /// The last vote of each node.
    pub fn votes(&self) -> &[Vote] {
        &self.votes
    }

    /// The refusal of a node that would not consider the request, if there is one.
    pub fn refusal(&self) -> Option<Refusal> {
        self.votes.iter().find_map(|vote| match vote {
            Vote::Refused(refusal) => Some(*refusal),
            _ => None,
        })
    }

    /// The number of votes of a kind.
    pub fn count(&self, is_of_kind: impl Fn(Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| is_of_kind(**vote)).count()
    }

    /// Ends the wait for answers: a node without an answer counts as silent from now on, and may
    /// have granted.
    pub fn close(&mut self) {
        for vote in &mut self.votes {
            if *vote == Vote::Open {
                *vote = Vote::Silent(true);
            }
        }
    }

    /// The verdict of the votes so far. The open votes cannot change it any more, unless it is
    /// [`Verdict::Open`] or [`Verdict::Commit`].
    pub fn verdict(&self) -> Verdict {
        let mut tokens: Vec<_> = self.votes.iter().filter_map(|vote| vote.token()).collect();
        tokens.sort_unstable();
        let open = self.count(|vote| vote == Vote::Open);
        if let Some(&token) = tokens.get(self.needed - 1) {
            return self.granted(&tokens, token, open);
        }
        let refusals = self.count(Vote::is_refusal);
        let spare = self.votes.len() - self.needed;
        if refusals > spare {
            Verdict::Refused
        } else if tokens.len() + open >= self.needed || refusals + open > spare {
            // In the second case the round is lost, but only the open votes show whether the name
            // is busy. For example, one of three nodes is down, and two refuse: the answer must not
            // depend on whether the outage or the second refusal is noticed first.
            Verdict::Open
        } else {
            Verdict::TooFew
        }
    }

    /// A majority has granted: `lowest` is the lowest token that a majority can take. A node that
    /// granted with a higher one is not needed: its counter, or its clock, is ahead. If the round
    /// adopted the token of that node, it would spread a wrong clock to all nodes.
    fn granted(&self, tokens: &[FencingToken], lowest: FencingToken, open: usize) -> Verdict {
        let ballot_us = self.ballot_us.filter(|_| !bugs::is_on(Bug::NoCommit));
        let Some(ballot_us) = ballot_us else {
            return Verdict::Agreed(tokens[tokens.len() - 1]);
        };
        if let Some(same) = tokens.windows(self.needed).find(|same| same[0] == same[same.len() - 1])
        {
            return Verdict::Agreed(same[0]);
        }
        // The other nodes would refuse to commit a token so far above the ballot. With one of the
        // open votes, a lower token may do.
        if open > 0 && lowest.micros() > ballot_us.saturating_add(micros(BALLOT_LEAD)) {
            return Verdict::Open;
        }
        let is_behind = |vote: &Vote| vote.token().is_some_and(|token| token < lowest);
        let nodes = (0..self.votes.len()).filter(|node| is_behind(&self.votes[*node])).collect();
        Verdict::Commit { token: lowest, nodes }
    }

    /// Whether a lost round was split between present callers: this caller has a few nodes, other
    /// callers have the rest, and all of them will release their nodes. Then it is worth trying
    /// again after a random pause.
    pub fn is_split(&self) -> bool {
        self.verdict() == Verdict::Refused
            && self.count(|vote| matches!(vote, Vote::Granted(_))) > 0
            && self.count(|vote| matches!(vote, Vote::Busy(_))) > 0
    }

    /// The time until a majority may be free, by the answers of the busy nodes.
    pub fn retry_after(&self) -> Duration {
        let mut busy: Vec<Duration> = self
            .votes
            .iter()
            .filter_map(|vote| match vote {
                Vote::Busy(retry_after) => Some(*retry_after),
                _ => None,
            })
            .collect();
        busy.sort_unstable();
        let free = self.votes.len() - busy.len();
        let missing = self.needed.saturating_sub(free).max(1);
        busy.get(missing - 1).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::majority;
    use super::*;

    const BALLOT_US: u64 = 1_800_000_000_000_000;

    fn granted(number: u64) -> Vote {
        Vote::Granted(token(number))
    }

    fn token(number: u64) -> FencingToken {
        FencingToken::from_micros(BALLOT_US + number)
    }

    fn busy(seconds: u64) -> Vote {
        Vote::Busy(Duration::from_secs(seconds))
    }

    fn round(votes: &[Vote]) -> Round {
        let mut round = Round::new(votes.len(), majority(votes.len()), Some(BALLOT_US));
        for (node, vote) in votes.iter().enumerate() {
            round.vote(node, *vote);
        }
        round
    }

    fn verdict(votes: &[Vote]) -> Verdict {
        round(votes).verdict()
    }

    fn commit(number: u64, nodes: &[usize]) -> Verdict {
        Verdict::Commit { token: token(number), nodes: nodes.to_vec() }
    }

    #[test]
    fn a_majority_with_one_token_has_won_whatever_the_others_say() {
        let agreed = Verdict::Agreed(token(5));
        assert_eq!(verdict(&[granted(5), Vote::Open, granted(5)]), agreed);
        assert_eq!(verdict(&[granted(5), granted(9), granted(5)]), agreed);
        assert_eq!(verdict(&[granted(9), granted(5), granted(5), granted(5), Vote::Open]), agreed);
        assert_eq!(verdict(&[granted(5), Vote::Open, Vote::Silent(true)]), Verdict::Open);
    }

    #[test]
    fn of_each_node_the_last_vote_counts() {
        let mut round = round(&[granted(5), Vote::Open, busy(1)]);
        round.vote(1, Vote::Closed);
        round.vote(0, granted(9));
        round.vote(3, granted(9));
        assert_eq!(round.votes(), [granted(9), Vote::Closed, busy(1)]);
    }

    #[test]
    fn a_majority_with_several_tokens_commits_the_lowest_that_will_do() {
        assert_eq!(verdict(&[granted(6), granted(11), Vote::Open]), commit(11, &[0]));
        assert_eq!(verdict(&[granted(90), granted(6), granted(7)]), commit(7, &[1]));
        assert_eq!(verdict(&[granted(7), granted(7), granted(6)]), Verdict::Agreed(token(7)));
    }

    #[test]
    fn a_token_far_ahead_of_the_ballot_is_committed_only_if_nobody_else_can_be_heard() {
        let wild = micros(BALLOT_LEAD) + 1;
        let mut round = round(&[granted(wild), granted(0), Vote::Open]);
        assert_eq!(round.verdict(), Verdict::Open);
        round.close();
        assert_eq!(round.verdict(), commit(wild, &[1]));
        round.vote(2, granted(0));
        assert_eq!(round.verdict(), Verdict::Agreed(token(0)));
    }

    #[test]
    fn a_token_as_far_ahead_of_the_ballot_as_nodes_allow_for_is_committed_at_once() {
        let most = micros(BALLOT_LEAD);
        assert_eq!(verdict(&[granted(most), granted(0), Vote::Open]), commit(most, &[1]));
    }

    #[test]
    fn a_commit_that_is_refused_leaves_too_few() {
        let mut round = round(&[granted(6), granted(11), Vote::Silent(false)]);
        assert_eq!(round.verdict(), commit(11, &[0]));
        round.vote(0, Vote::Silent(true));
        assert_eq!(round.verdict(), Verdict::TooFew);
    }

    #[test]
    fn the_refusal_of_a_node_is_that_of_the_round() {
        let busy_round = round(&[granted(6), busy(1), Vote::Open]);
        assert_eq!(busy_round.refusal(), None);
        let refused = round(&[granted(6), busy(1), Vote::Refused(Refusal::Damaged)]);
        assert_eq!(refused.refusal(), Some(Refusal::Damaged));
    }

    #[test]
    fn it_is_busy_only_if_those_that_answer_leave_no_majority() {
        let (open, silent) = (Vote::Open, Vote::Silent(true));
        assert_eq!(verdict(&[busy(1), busy(1), open]), Verdict::Refused);
        assert_eq!(verdict(&[busy(1), silent, open]), Verdict::Open, "the third decides");
        assert_eq!(verdict(&[busy(1), silent, busy(1)]), Verdict::Refused);
        assert_eq!(verdict(&[busy(1), silent, granted(1)]), Verdict::TooFew);
        assert_eq!(verdict(&[busy(1), Vote::Silent(false), silent]), Verdict::TooFew);
        assert_eq!(verdict(&[silent, silent, open]), Verdict::TooFew);
        assert_eq!(verdict(&[busy(1), busy(1), open, open, open]), Verdict::Open);
    }

    #[test]
    fn without_tokens_to_agree_on_a_majority_is_enough() {
        let mut round = Round::new(3, 2, None);
        round.vote(0, granted(3));
        round.vote(2, granted(8));
        assert_eq!(round.verdict(), Verdict::Agreed(token(8)));
    }

    #[test]
    fn it_is_worth_asking_again_when_enough_leases_have_ended_for_a_majority_to_be_free() {
        assert_eq!(round(&[busy(9), busy(4), granted(1)]).retry_after(), Duration::from_secs(4));
        assert_eq!(round(&[busy(9), busy(4), busy(5)]).retry_after(), Duration::from_secs(5));
    }

    #[test]
    fn a_round_is_split_if_others_have_what_is_missing() {
        assert!(round(&[granted(1), busy(1), busy(1)]).is_split());
        assert!(!round(&[Vote::Silent(true), busy(1), busy(1)]).is_split());
        assert!(!round(&[granted(1), granted(1), busy(1)]).is_split());
        assert!(
            !round(&[granted(1), Vote::Closed, Vote::Closed]).is_split(),
            "nobody has the rest"
        );
    }

    fn any_vote() -> impl Strategy<Value = Vote> {
        prop_oneof![
            4 => (0_u64..4).prop_map(granted),
            1 => Just(granted(micros(BALLOT_LEAD) + 1)),
            3 => Just(busy(1)),
            1 => Just(Vote::Refused(Refusal::Weight)),
            1 => any::<bool>().prop_map(Vote::Silent),
            1 => Just(Vote::Closed),
        ]
    }

    proptest! {
        #[test]
        fn what_is_certain_stays_so_whatever_the_open_votes_turn_out_to_be(
            votes in vec((any_vote(), any::<bool>()), 1..8),
        ) {
            let all: Vec<_> = votes.iter().map(|(vote, _)| *vote).collect();
            let heard = |(vote, is_open): &(Vote, bool)| if *is_open { Vote::Open } else { *vote };
            let some: Vec<_> = votes.iter().map(heard).collect();
            let last = verdict(&all);
            match verdict(&some) {
                Verdict::Commit { .. } => {
                    let is_won = matches!(last, Verdict::Agreed(_) | Verdict::Commit { .. });
                    prop_assert!(is_won, "{last:?}");
                }
                Verdict::Open => {}
                certain => prop_assert_eq!(certain, last),
            }
        }

        #[test]
        fn who_has_won_holds_a_majority_with_that_token(votes in vec(any_vote(), 1..8)) {
            let needed = majority(votes.len());
            let count = |is: &dyn Fn(FencingToken) -> bool| {
                votes.iter().filter(|vote| vote.token().is_some_and(is)).count()
            };
            match verdict(&votes) {
                Verdict::Agreed(token) => prop_assert!(count(&|own| own == token) >= needed),
                Verdict::Commit { token, nodes } => {
                    prop_assert!(nodes.len() + count(&|own| own == token) >= needed);
                    prop_assert!(count(&|own| own < token) < needed, "a lower one would do");
                }
                Verdict::Open => prop_assert!(false, "nothing is open"),
                Verdict::Refused | Verdict::TooFew => prop_assert!(count(&|_| true) < needed),
            }
        }
    }
}
