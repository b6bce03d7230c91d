//! Acquire: rounds that ask all nodes at the same time, until a round is won or none can be won.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::quorum::{NodeVote, RenewTally, Round, Trace, Verdict, Vote};
use leasehold_core::{
    Action, Answer, Description, End, FencingToken, Grant, HolderId, Instant, Keep, LockName,
    Operation, Refusal, Reply, StoreError, StoreErrorKind, Take,
};

use super::fan_out::{FanOut, know_clocks};
use super::leases::{KnownLease, LATEST, LateAnswers};
use super::node::{Node, Result};
use super::nodes::Nodes;
use super::{cleanup, keep};
use crate::store::clocked::TimedAnswer;

/// The largest number of rounds of a call whose votes are split with other callers: 4. Before each
/// further round, the call waits for a random time, up to twice as long as before. So three callers
/// that began at the same moment no longer collide after one or two rounds.
const ROUNDS: u32 = 4;

/// The longest pause after a first split round: 2 ms (a few round trips of a local network), or as
/// long as the round took, if that is longer.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// The delay before a call asks again after split rounds: by then, the other callers have released
/// their minorities.
const SPLIT_RETRY: Duration = Duration::from_millis(20);

/// An acquire or an adoption under way.
pub(super) struct AcquireRounds<'a> {
    nodes: &'a Arc<Nodes>,
    name: &'a LockName,
    take: &'a Take,
    started: Instant,
    /// Whether the end of this attempt may still be on its way to a node. Then no further round may
    /// win the attempt.
    is_ending: bool,
    /// Whether a node has refused the ballot of the last round.
    is_ballot_refused: bool,
    /// Why nodes did not vote in this round.
    errors: Vec<StoreError>,
    /// The answers that had not come when a round was won.
    late: LateAnswers,
    /// The last runs that are enough, and how many nodes say so.
    done: BTreeMap<HolderId, (usize, Reply)>,
    /// The replies of nodes that do not have the lease, in an adoption.
    pub(super) without: RenewTally,
}

impl<'a> AcquireRounds<'a> {
    pub(super) fn new(nodes: &'a Arc<Nodes>, name: &'a LockName, take: &'a Take) -> Self {
        Self {
            nodes,
            name,
            take,
            started: nodes.clock.now(),
            is_ending: false,
            is_ballot_refused: false,
            errors: Vec::new(),
            late: LateAnswers::default(),
            done: BTreeMap::new(),
            without: nodes.tally(),
        }
    }

    pub(super) async fn run(mut self) -> Result<Answer> {
        let nodes = self.nodes;
        if let Some(answer) = self.without_a_round().await? {
            return Ok(answer);
        }
        if !nodes.has_majority() {
            // The nodes that answer are no majority, so their grants would be of no use.
            return Err(nodes.no_quorum(self.name, 0));
        }
        let (mut rounds, mut longest_pause) = (0, FIRST_PAUSE);
        loop {
            rounds += 1;
            let began = nodes.clock.now();
            let (round, verdict) = self.round(nodes.acquire_timeout(self.take.ttl)).await;
            if let Verdict::Agreed(token) = verdict {
                return Ok(self.won(&round, token));
            }
            self.let_go(&round).await?;
            if let Some(done) = self.last_run(silent(&round)) {
                return Ok(Answer::untimed(done.clone()));
            }
            // After a refusal, the clocks of the nodes are known better.
            let is_late = self.is_ballot_refused && verdict == Verdict::TooFew;
            if !(round.is_split() || is_late) || rounds == ROUNDS || self.is_ending {
                return self.lost(&round, &verdict);
            }
            longest_pause = longest_pause.max(nodes.clock.now().saturating_since(began));
            let pause = nodes.between(Duration::ZERO, longest_pause);
            nodes.clock.sleep_until(nodes.clock.now() + pause).await;
            longest_pause *= 2;
        }
    }

    /// The answer to a request of an attempt that has ended, and to a copy of a request that was
    /// granted. A copy must not start a round: nodes that were not needed for the grant would then
    /// grant it with a higher token.
    pub(super) async fn without_a_round(&mut self) -> Result<Option<Answer>> {
        let Take { request, ttl, .. } = self.take;
        let token = {
            let leases = self.nodes.leases.lock();
            if leases.is_over(request.id) {
                return Ok(Some(Answer::untimed(Reply::Closed)));
            }
            leases.get(request.id).map(|known| known.token)
        };
        let Some(token) = token else { return Ok(None) };
        let copy = Keep::new(request.clone(), *ttl);
        let mut answer = keep::one(self.nodes, self.name, copy).await?;
        answer.reply = match answer.reply {
            Reply::Kept { .. } => Reply::Granted(Grant::new(token)),
            Reply::NotHeld | Reply::Revoked => Reply::Closed,
            reply => reply,
        };
        Ok(Some(answer))
    }

    /// Asks all nodes at the same time, and ends as soon as the outcome is certain.
    pub(super) async fn round(&mut self, timeout: Duration) -> (Round, Verdict) {
        let Self { nodes, name, take, .. } = *self;
        know_clocks(nodes, name, timeout).await;
        let now = nodes.clock.now();
        let ballot_us = nodes.ballot(now);
        let mut round = Round::new(nodes.len(), nodes.needed, ballot_us);
        let mut fan_out = FanOut::new(nodes, now + timeout);
        self.is_ballot_refused = false;
        self.errors.clear();
        self.done.clear();
        for index in 0..nodes.len() {
            let take = take.clone().with_waits(false).with_place(None).with_ballot(ballot_us);
            fan_out.add(index, ask_one(Arc::clone(&nodes.nodes[index]), name.clone(), take));
        }
        loop {
            match round.verdict() {
                verdict if verdict == Verdict::Open || self.is_worth_waiting(&round) => {
                    match fan_out.next().await {
                        Some((index, reply)) => round.vote(index, self.vote(reply)),
                        None => round.close(),
                    }
                }
                Verdict::Commit { token, nodes } => {
                    self.commit(&mut round, token, &nodes).await;
                }
                verdict => {
                    self.late = LateAnswers(fan_out.into_pending());
                    return (round, verdict);
                }
            }
        }
    }

    /// Turns the reply of a node into a vote.
    fn vote(&mut self, reply: Result<TimedAnswer>) -> Vote {
        let timed = match reply {
            Ok(timed) => timed,
            Err(error) => {
                let may_hold = error.may_have_executed();
                self.errors.push(error);
                return Vote::Silent(may_hold);
            }
        };
        match &timed.answer.reply {
            Reply::Busy { retry_after } => Vote::Busy(*retry_after),
            Reply::Closed => Vote::Closed,
            done @ Reply::Done { last, next_in } => {
                self.done.entry(last.id).or_insert_with(|| (0, done.clone())).0 += 1;
                Vote::Busy(*next_in)
            }
            Reply::Granted(grant) => {
                self.nodes.ballots.lock().saw(grant.token);
                Vote::Granted(grant.token)
            }
            // An answer about a wrong clock, at the node or here, says nothing about the holder of
            // the lock.
            Reply::Refused(Refusal::Ballot) => {
                self.is_ballot_refused = true;
                Vote::Silent(false)
            }
            Reply::Refused(refusal) => Vote::Refused(*refusal),
            reply @ (Reply::NotHeld | Reply::Revoked) => {
                self.without.add(NodeVote::from(reply));
                Vote::Busy(Duration::ZERO)
            }
            _ => Vote::Silent(true),
        }
    }

    /// Brings the nodes of a majority to the same token. Only then does every later majority have a
    /// node that grants no lower token.
    async fn commit(&mut self, round: &mut Round, token: FencingToken, behind: &[usize]) {
        let (nodes, Take { request, ttl, .. }) = (self.nodes, self.take);
        let mut fan_out = FanOut::new(nodes, nodes.clock.now() + nodes.acquire_timeout(*ttl));
        let description = Description::new(token, Arc::clone(&request.info));
        let keep = Keep::new(request.clone(), *ttl).with_description(Some(Box::new(description)));
        for index in behind {
            let action = Action::Keep(keep.clone());
            fan_out.ask(*index, Operation::On { name: self.name.clone(), action });
        }
        while !matches!(round.verdict(), Verdict::Agreed(_))
            && let Some((index, reply)) = fan_out.next().await
        {
            let is_kept = reply.is_ok_and(|timed| matches!(timed.answer.reply, Reply::Kept { .. }));
            round.vote(index, if is_kept { Vote::Granted(token) } else { Vote::Silent(true) });
        }
    }

    /// The answer to a round that was won. If the client was closed meanwhile, the attempt has
    /// ended, and its end is on its way to all nodes.
    pub(super) fn won(self, round: &Round, token: FencingToken) -> Answer {
        let Self { nodes, take, started, late, .. } = self;
        let may_arrive = |vote: &Vote| vote.trace() == Trace::MayBeHeld;
        let known = KnownLease {
            ttl: take.ttl,
            token,
            unanswered: round.votes().iter().map(may_arrive).collect(),
            late,
            until: started + take.ttl,
        };
        let mut leases = nodes.leases.lock();
        if leases.is_over(take.request.id) {
            return Answer::untimed(Reply::Closed);
        }
        leases.insert(take.request.id, known, nodes.clock.now());
        Answer::untimed(Reply::Granted(Grant::new(token)))
    }

    /// Ends the attempt at all nodes that have granted it, or may have granted it without an
    /// answer. Waits for the nodes that hold the lease: otherwise the minority that this attempt
    /// still holds would be in the way of a retry.
    pub(super) async fn let_go(&mut self, round: &Round) -> Result<()> {
        let (nodes, Take { request, ttl, .. }) = (self.nodes, self.take);
        let (id, now) = (request.id, nodes.clock.now());
        nodes.leases.lock().end(id, now, now + (*ttl).max(LATEST), false);
        let mut actions = Vec::new();
        for (index, trace) in round.votes().iter().map(|vote| vote.trace()).enumerate() {
            let may_arrive = trace == Trace::MayBeHeld;
            self.is_ending |= may_arrive;
            if trace != Trace::None {
                let end = End::new(request.clone()).with_closes(may_arrive);
                actions.push((index, Action::End(end)));
            }
        }
        let mut holding = round.count(|vote| vote.trace() == Trace::Held);
        let mut replies = cleanup::start(nodes, self.name, id, actions, *ttl)?;
        while holding > 0 {
            let Some((index, outcome)) = replies.recv().await else { break };
            if round.votes()[index].trace() == Trace::Held {
                holding -= 1;
                self.is_ending |= outcome.is_err();
            }
        }
        if !self.is_ending {
            // All requests of the attempt were answered, so it can be asked for again, unless the
            // client was closed meanwhile.
            self.is_ending = !nodes.leases.lock().reopen(id);
        }
        Ok(())
    }

    /// The answer or the error for a lost round.
    pub(super) fn lost(&self, round: &Round, verdict: &Verdict) -> Result<Answer> {
        let nodes = self.nodes;
        if let Some(refusal) = nodes.refusal(self.name.as_str(), &self.errors) {
            let leaves_something = round.count(|vote| vote.trace() != Trace::None) > 0;
            return Err(match self.is_ending || leaves_something {
                true => refusal.maybe_executed(),
                false => refusal,
            });
        }
        if *verdict != Verdict::Refused {
            let granted = round.count(|vote| matches!(vote, Vote::Granted(_)));
            let quarantined = |error: &&StoreError| error.kind() == StoreErrorKind::Quarantined;
            let in_quarantine = self.errors.iter().filter(quarantined).count();
            let too_few = nodes.no_quorum(self.name, granted);
            return Err(match self.errors.iter().find(quarantined) {
                // Without the quarantine, the round would have been won.
                Some(error) if granted + in_quarantine >= nodes.needed => error.clone(),
                // A node that was slow, or still has to end this attempt, may be in time for the
                // next one.
                Some(_) | None if self.is_ending => too_few.maybe_executed(),
                Some(_) | None => too_few,
            });
        }
        let busy = round.count(|vote| matches!(vote, Vote::Busy(_)));
        let reply = match round.refusal() {
            Some(refusal) if busy == 0 => Reply::Refused(refusal),
            Some(_) | None if round.count(|vote| vote == Vote::Closed) > 0 => Reply::Closed,
            Some(_) | None => {
                let mut retry_after = round.retry_after();
                if round.is_split() {
                    retry_after = retry_after.min(SPLIT_RETRY);
                }
                Reply::Busy { retry_after }
            }
        };
        Ok(Answer::untimed(reply))
    }

    /// The last run that a majority of the nodes has, if those that are silent have it, too. Fewer
    /// nodes may say of a run that it has succeeded, although it was revoked or over: they did not
    /// know that when its holder said so.
    fn last_run(&self, silent: usize) -> Option<&Reply> {
        let told = self.done.values().find(|(count, _)| count + silent >= self.nodes.needed);
        told.map(|(_, reply)| reply)
    }

    /// Whether a lost round waits for the nodes that have not answered. If the votes were split,
    /// there is another round only once all nodes have answered. If some nodes refuse for good, the
    /// call waits for the other nodes: if those refuse, too, no round will be won. It also waits if
    /// those nodes decide whether a majority has a last run.
    fn is_worth_waiting(&self, round: &Round) -> bool {
        let open = round.count(|vote| vote == Vote::Open);
        let refusals = self.errors.iter().filter(|error| !error.kind().is_outage()).count();
        let may_be_refused = refusals > 0 && refusals + open > self.nodes.len() - self.nodes.needed;
        let may_be_done = self.last_run(0) != self.last_run(silent(round));
        open > 0 && (round.is_split() || may_be_refused || may_be_done)
    }
}

/// How many nodes have not said whether there is a last run.
fn silent(round: &Round) -> usize {
    round.count(|vote| !matches!(vote, Vote::Busy(_) | Vote::Granted(_)))
}

/// Sends the take to one node. A node that does not have the lease to adopt grants nothing to the
/// adopter: the lease may have lapsed there, and somebody else may have held since.
async fn ask_one(node: Arc<Node>, name: LockName, take: Take) -> Result<TimedAnswer> {
    let on = |action| Operation::On { name: name.clone(), action };
    let timed = node.ask(on(Action::Take(take))).await?;
    if let Reply::Refused(Refusal::Ballot) = timed.answer.reply {
        // Its clock, or that of this machine, was set. The next ballot needs a new reading.
        node.ask(on(Action::Look { limit: 0 })).await?;
    }
    Ok(timed)
}
