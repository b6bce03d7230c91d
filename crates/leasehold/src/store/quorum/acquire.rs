//! Acquire: rounds that ask all nodes at the same time, until a round is won or none can be won.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::model::TOMBSTONE_LIFE;
use leasehold_core::quorum::{
    NodeHold, NodeVote, RenewTally, Round, Trace, Verdict, Vote, quorum_validity,
};
use leasehold_core::time::micros;
use leasehold_core::{
    Acquire, Action, Answer, FencingToken, Grant, Instant, LockName, Operation, Refusal,
    RenewLease, Reply, StoreError, StoreErrorKind,
};

use super::fan_out::FanOut;
use super::leases::{HandedOut, KnownLease, Run, granted};
use super::nodes::Nodes;
use super::{cleanup, renew};
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

/// An acquire under way.
pub(super) struct AcquireRounds<'a> {
    pub(super) nodes: &'a Arc<Nodes>,
    pub(super) name: &'a LockName,
    pub(super) request: &'a Acquire,
    /// The lease to adopt, if this is an adoption.
    pub(super) lease: Option<HandedOut>,
    pub(super) started: Instant,
    run: Run<'a>,
    /// Whether a cancel of this attempt may still be on its way to a node. Then no further round
    /// may win the attempt.
    is_ending: bool,
    /// How each node holds the lease.
    holds: Vec<NodeHold>,
    /// Why nodes did not vote in this round.
    errors: Vec<StoreError>,
    /// The replies of nodes that do not have the lease, in an adoption.
    pub(super) without: RenewTally,
}

impl<'a> AcquireRounds<'a> {
    pub(super) fn new(nodes: &'a Arc<Nodes>, name: &'a LockName, request: &'a Acquire) -> Self {
        Self {
            nodes,
            name,
            request,
            lease: None,
            started: nodes.clock.now(),
            run: Run::begin(&nodes.leases, request.id),
            is_ending: false,
            holds: vec![NodeHold::NotHeld; nodes.len()],
            errors: Vec::new(),
            without: nodes.tally(),
        }
    }

    pub(super) async fn run(mut self) -> Result<Answer, StoreError> {
        let (nodes, request) = (self.nodes, self.request);
        if let Some(answer) = self.without_a_round().await? {
            return Ok(answer);
        }
        if !nodes.has_majority() {
            // The nodes that answer are no majority, so their grants would be of no use.
            return Err(nodes.no_quorum(self.name, 0));
        }
        let mut longest_pause = FIRST_PAUSE;
        for round_number in 1.. {
            let began = nodes.clock.now();
            let (round, verdict) = self.round(nodes.acquire_timeout(request.ttl)).await;
            if let Verdict::Agreed(token) = verdict {
                return Ok(self.won(token));
            }
            if !self.let_go(&round).await? {
                break;
            }
            if !round.is_split() || round_number == ROUNDS || self.is_ending {
                return self.lost(&round, &verdict);
            }
            longest_pause = longest_pause.max(nodes.clock.now().saturating_since(began));
            let pause = nodes.between(Duration::ZERO, longest_pause);
            nodes.clock.sleep_until(nodes.clock.now() + pause).await;
            longest_pause *= 2;
            if !self.run.is_newest() {
                break;
            }
        }
        // Another caller has the attempt now.
        Ok(nodes.answer(self.started, Reply::Stale))
    }

    /// The answer to a request that is late or has ended, and to a copy of a request that was
    /// granted. A copy must not start a round: nodes that were not needed for the grant would then
    /// grant it with a higher token.
    pub(super) async fn without_a_round(&self) -> Result<Option<Answer>, StoreError> {
        let nodes = self.nodes;
        let Acquire { id, ttl, not_after_us, .. } = *self.request;
        if micros(self.started.since_origin()) > not_after_us {
            return Ok(Some(nodes.answer(self.started, Reply::Late)));
        }
        if nodes.leases.lock().is_over(id) {
            return Ok(Some(nodes.answer(self.started, Reply::Stale)));
        }
        let is_copy = nodes.leases.lock().get(id).is_some();
        if !is_copy {
            return Ok(None);
        }
        let renewal = RenewLease::new(self.name.clone(), id, ttl);
        let mut answer = renew::renew_one(nodes, renewal).await?;
        if let Reply::NotHeld { .. } | Reply::Revoked(_) = answer.reply {
            answer.reply = Reply::Stale;
        }
        Ok(Some(answer))
    }

    /// Asks all nodes at the same time, and ends as soon as the outcome is certain.
    pub(super) async fn round(&mut self, timeout: Duration) -> (Round, Verdict) {
        let (nodes, request) = (self.nodes, self.request);
        let now = nodes.clock.now();
        let ballot_us = nodes.ballot(now);
        let mut round = Round::new(nodes.len(), nodes.needed, ballot_us);
        let found = AtomicBool::new(false);
        let mut fan_out = FanOut::new(nodes, now + timeout);
        self.holds.fill(NodeHold::Open);
        self.errors.clear();
        for index in 0..nodes.len() {
            let acquire = (self.name, request, self.lease);
            fan_out.add(index, ask_one(nodes, index, acquire, (ballot_us, &found)));
        }
        loop {
            match round.verdict() {
                verdict if verdict == Verdict::Open || self.is_worth_waiting(&round) => {
                    match fan_out.next().await {
                        Some((index, reply)) => round.vote(index, self.vote(index, reply)),
                        None => round.close(),
                    }
                }
                Verdict::Commit { token, nodes } if self.run.is_newest() => {
                    self.commit(&mut round, token, &nodes).await;
                }
                // Every majority has a node with the lease, unless the lease has ended or was
                // adopted.
                Verdict::Agreed(_) if self.lease.is_some() && !found.load(Ordering::Relaxed) => {
                    return (round, Verdict::Refused);
                }
                verdict => return (round, verdict),
            }
        }
    }

    /// Turns the reply of a node into a vote.
    fn vote(&mut self, index: usize, reply: Result<TimedAnswer, StoreError>) -> Vote {
        let timed = match reply {
            Ok(timed) => timed,
            Err(error) => {
                let may_hold = error.may_have_executed();
                if !may_hold {
                    self.holds[index] = NodeHold::NotHeld;
                }
                self.errors.push(error);
                return Vote::Silent(may_hold);
            }
        };
        self.holds[index] = NodeHold::NotHeld;
        if let Some((token, hold)) = granted(&timed) {
            self.holds[index] = hold;
            self.nodes.ballots.lock().saw(token);
            return Vote::Granted(token);
        }
        match &timed.answer.reply {
            Reply::Busy { retry_after } => Vote::Busy(*retry_after),
            Reply::Stale => Vote::Stale,
            // An answer about a wrong clock, at the node or here, says nothing about the holder of
            // the lock.
            Reply::Late | Reply::Refused(Refusal::Ballot) => Vote::Silent(false),
            Reply::Refused(refusal) => Vote::Refused(*refusal),
            reply @ (Reply::NotHeld { .. } | Reply::Revoked(_)) => {
                self.without.add(NodeVote::from(reply));
                Vote::Busy(Duration::ZERO)
            }
            _ => Vote::Silent(true),
        }
    }

    /// Brings the nodes of a majority to the same token. Only then does every later majority have a
    /// node that grants no lower token.
    async fn commit(&mut self, round: &mut Round, token: FencingToken, behind: &[usize]) {
        let nodes = self.nodes;
        let (id, ttl) = (self.request.id, self.request.ttl);
        let mut fan_out = FanOut::new(nodes, nodes.clock.now() + nodes.acquire_timeout(ttl));
        for index in behind {
            let action = Action::Commit { id, token, ttl };
            fan_out.ask(*index, Operation::On { name: self.name.clone(), action });
        }
        while !matches!(round.verdict(), Verdict::Agreed(_))
            && let Some((index, reply)) = fan_out.next().await
        {
            let granted = reply.ok().and_then(|timed| granted(&timed));
            let vote = granted.map_or(Vote::Silent(true), |(token, hold)| {
                self.holds[index] = hold;
                Vote::Granted(token)
            });
            round.vote(index, vote);
        }
    }

    /// The answer to a round that was won. It is stale if another caller has the attempt now: that
    /// caller gets the same grants.
    pub(super) fn won(self, token: FencingToken) -> Answer {
        let Self { nodes, request, started, run, .. } = self;
        let left = quorum_validity(&self.holds, nodes.needed, started);
        let known = KnownLease {
            nonce: request.nonce,
            info: request.info.clone(),
            ttl: request.ttl,
            token,
            unanswered: self.holds.iter().map(|word| *word == NodeHold::Open).collect(),
            holds: self.holds,
            until: started + left,
        };
        let Some(mut leases) = run.leases() else { return nodes.answer(started, Reply::Stale) };
        leases.insert(request.id, known, nodes.clock.now());
        drop(leases);
        let deadline_us = micros((started + left).since_origin());
        nodes.answer(started, Reply::Granted(Grant::new(token, deadline_us)))
    }

    /// Cancels the attempt at all nodes that have granted it, or may have granted it without an
    /// answer. A cancel is enough, because no caller has had the lease. Waits for the nodes that
    /// hold the lease: otherwise the minority that this attempt still holds would be in the way of
    /// a retry. Returns false, and cancels nothing, if another caller has the attempt now.
    pub(super) async fn let_go(&mut self, round: &Round) -> Result<bool, StoreError> {
        let (nodes, id) = (self.nodes, self.request.id);
        let now = nodes.clock.now();
        match self.run.leases() {
            Some(mut leases) => leases.end(id, now, now + self.request.ttl.max(TOMBSTONE_LIFE)),
            None => return Ok(false),
        };
        let mut actions = Vec::new();
        let mut holding = 0;
        for (index, vote) in round.votes().iter().enumerate() {
            match vote.trace() {
                Trace::Held => {
                    actions.push((index, Action::Cancel { id, unanswered: false }));
                    holding += 1;
                }
                Trace::MayBeHeld => {
                    self.is_ending = true;
                    actions.push((index, Action::Cancel { id, unanswered: true }));
                }
                Trace::None => {}
            }
        }
        let mut replies = cleanup::start(nodes, self.name, id, actions, self.request.ttl)?;
        while holding > 0 {
            let Some((index, outcome)) = replies.recv().await else { break };
            if round.votes()[index].trace() == Trace::Held {
                holding -= 1;
                self.is_ending |= outcome.is_err();
            }
        }
        if !self.is_ending {
            // All requests of the attempt were answered, so it can be asked for again.
            nodes.leases.lock().reopen(id);
        }
        Ok(true)
    }

    /// The answer or the error for a lost round.
    pub(super) fn lost(&self, round: &Round, verdict: &Verdict) -> Result<Answer, StoreError> {
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
            return Err(match self.errors.iter().find(quarantined) {
                // Without the quarantine, the round would have been won.
                Some(error) if granted + in_quarantine >= nodes.needed => error.clone(),
                // A node that was slow, or still has to end this attempt, may be in time for the
                // next one.
                Some(_) | None if self.is_ending => {
                    nodes.no_quorum(self.name, granted).maybe_executed()
                }
                Some(_) | None => nodes.no_quorum(self.name, granted),
            });
        }
        let busy = round.count(|vote| matches!(vote, Vote::Busy(_)));
        let reply = match round.refusal() {
            Some(refusal) if busy == 0 => Reply::Refused(refusal),
            Some(_) | None if round.count(|vote| vote == Vote::Stale) > 0 => Reply::Stale,
            Some(_) | None => {
                let mut retry_after = round.retry_after();
                if round.is_split() {
                    retry_after = retry_after.min(SPLIT_RETRY);
                }
                Reply::Busy { retry_after }
            }
        };
        Ok(nodes.answer(self.started, reply))
    }

    /// Whether a lost round waits for the nodes that have not answered. If the votes were split,
    /// there is another round only once all nodes have answered. If some nodes refuse for good, the
    /// call waits for the other nodes: if those refuse, too, no round will be won.
    fn is_worth_waiting(&self, round: &Round) -> bool {
        let open = round.count(|vote| vote == Vote::Open);
        let refusals = self.errors.iter().filter(|error| !error.kind().is_outage()).count();
        let may_be_refused = refusals > 0 && refusals + open > self.nodes.len() - self.nodes.needed;
        open > 0 && (round.is_split() || may_be_refused)
    }
}

/// Sends the acquire or the adoption to one node, with times by the node's clock.
async fn ask_one(
    nodes: &Nodes,
    index: usize,
    (name, request, lease): (&LockName, &Acquire, Option<HandedOut>),
    (ballot_us, found): (Option<u64>, &AtomicBool),
) -> Result<TimedAnswer, StoreError> {
    let (node, clock) = (&nodes.nodes[index], &nodes.clock);
    let on = |action| Operation::On { name: name.clone(), action };
    if !node.has_sample() {
        node.ask(on(Action::Inspect { limit: 0 })).await?;
    }
    let (mut asked_again, mut lease) = (false, lease);
    loop {
        let now = clock.now();
        let counts_us = request.not_after_us.saturating_sub(micros(now.since_origin()));
        let not_after_us = node.not_after_us(name, now, Duration::from_micros(counts_us));
        let acquire = request
            .clone()
            .with_wait(false)
            .with_not_after(not_after_us.unwrap_or(request.not_after_us))
            .with_ballot(ballot_us);
        let action = match lease {
            None => Action::Acquire(acquire),
            Some(lease) => Action::Adopt(lease.adoption(acquire)),
        };
        let timed = node.ask(on(action)).await?;
        // If the node does not know the lease, it is asked to grant the name.
        let has_ballots = ballot_us.is_some();
        if lease.take_if(|lease| has_ballots && lease.is_unknown_to(&timed)).is_some() {
            continue;
        }
        if lease.is_some() && matches!(timed.answer.reply, Reply::Granted(_)) {
            found.store(true, Ordering::Relaxed);
        }
        // The node's clock was set forward since its last answer. This answer has brought a new
        // sample.
        let was_late = timed.answer.reply == Reply::Late;
        if !was_late || std::mem::replace(&mut asked_again, true) {
            return Ok(timed);
        }
    }
}
