//! Acquire: rounds that ask all nodes at once, until one is won or it is clear that none will be.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::TOMBSTONE_LIFE;
use leasehold_core::quorum::{Round, Trace, Verdict, Vote, Word, kept_for};
use leasehold_core::{
    Acquire, Action, Answer, FencingToken, Grant, Instant, LockName, Mode, Operation, Refusal,
    RenewLease, Reply, StoreError, StoreErrorKind,
};

use super::Nodes;
use super::asking::Asking;
use super::ending;
use super::leases::{Claim, Known};
use super::node::{Told, micros};
use super::renew;

/// How many rounds one call makes whose votes were split between several callers: 4. Each waits a
/// random time before the next, up to twice as long as before, so three callers that began in the
/// same moment are apart after one or two.
const ROUNDS: u32 = 4;

/// The longest pause after a first split round: 2 ms, a few round trips of a local network, or the
/// time that the round took, if that is more.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// When to ask again after rounds that were split: others let go of their minorities by then.
const SPLIT_RETRY: Duration = Duration::from_millis(20);

/// One acquire under way.
pub(super) struct Attempt<'a> {
    nodes: &'a Arc<Nodes>,
    name: &'a LockName,
    request: &'a Acquire,
    started: Instant,
    /// Where this attempt cannot be asked for any more: a cancel of it may be on its way there.
    barred: Vec<bool>,
    /// The last round did without those that are barred.
    left_out: bool,
    /// What each node said of the hold.
    words: Vec<Word>,
    /// What those said that have forgotten something and grant nothing new for now.
    quarantined: Vec<StoreError>,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(nodes: &'a Arc<Nodes>, name: &'a LockName, request: &'a Acquire) -> Self {
        let (barred, words) = (vec![false; nodes.len()], vec![Word::NotHeld; nodes.len()]);
        Self {
            nodes,
            name,
            request,
            started: nodes.clock.now(),
            barred,
            left_out: false,
            words,
            quarantined: Vec::new(),
        }
    }

    pub(super) async fn run(mut self) -> Result<Answer, StoreError> {
        let (nodes, request) = (self.nodes, self.request);
        if let Mode::Permits { capacity: 2.., .. } = request.mode {
            return Err(StoreError::new(
                StoreErrorKind::Unsupported,
                format!(
                    "{}: a quorum cannot give permits of several: three users would each see a \
                     majority for two permits on three nodes; use one primary, or a mutex for each \
                     permit",
                    self.name
                ),
            ));
        }
        if micros(self.started.since_origin()) > request.not_after_us {
            return Ok(nodes.answer(self.started, Reply::Late));
        }
        if nodes.leases().is_over(request.id) {
            return Ok(nodes.answer(self.started, Reply::Stale));
        }
        let is_copy = nodes.leases().get(request.id).is_some_and(|known| known.claim.is_some());
        if is_copy {
            return self.again().await;
        }
        let mut longest_pause = FIRST_PAUSE;
        for round_number in 1.. {
            let began = nodes.clock.now();
            let (round, verdict) = self.round().await;
            if let Verdict::Agreed(token) = verdict {
                return Ok(self.won(token));
            }
            self.left_out = self.barred.contains(&true);
            self.let_go(&round).await?;
            if !round.is_split() || round_number == ROUNDS {
                return self.lost(&round, &verdict);
            }
            longest_pause = longest_pause.max(nodes.clock.now().saturating_since(began));
            let pause = nodes.between(Duration::ZERO, longest_pause);
            nodes.clock.sleep_until(nodes.clock.now() + pause).await;
            longest_pause *= 2;
        }
        Ok(nodes.answer(self.started, Reply::Stale)) // unreachable: the last round returns
    }

    /// A copy of an acquire that was granted. It must not be counted as a round: nodes that were
    /// not needed for the grant would grant now, with a higher token.
    async fn again(&self) -> Result<Answer, StoreError> {
        let (nodes, Acquire { id, ttl, .. }) = (self.nodes, self.request);
        let renewal = RenewLease { name: self.name.clone(), id: *id, ttl: *ttl };
        let answer = renew::renew_one(nodes, renewal).await?;
        let reply = match answer.reply {
            Reply::NotHeld { .. } | Reply::Revoked(_) => Reply::Stale,
            other => other,
        };
        Ok(Answer { reply, ..answer })
    }

    /// Asks all nodes at once; ends as soon as the outcome is certain.
    async fn round(&mut self) -> (Round, Verdict) {
        let (nodes, request) = (self.nodes, self.request);
        let now = nodes.clock.now();
        let ballot_us = nodes.ballot(now);
        let mut round = Round::new(nodes.len(), nodes.needed, ballot_us);
        let mut asking = Asking::new(nodes, now + nodes.acquire_timeout(request.ttl));
        self.words.fill(Word::Open);
        self.quarantined.clear();
        for index in 0..nodes.len() {
            if self.barred[index] {
                round.vote(index, Vote::Silent(false));
            } else {
                asking.add(index, ask_one(nodes, index, self.name, request, ballot_us));
            }
        }
        loop {
            match round.verdict() {
                verdict if verdict == Verdict::Open || is_worth_hearing(&round) => {
                    match asking.next().await {
                        Some((index, heard)) => round.vote(index, self.vote(index, heard)),
                        None => round.close(),
                    }
                }
                Verdict::Commit { token, nodes } => self.commit(&mut round, token, &nodes).await,
                verdict => return (round, verdict),
            }
        }
    }

    /// Takes note of what a node says.
    fn vote(&mut self, index: usize, heard: Result<Told, StoreError>) -> Vote {
        let told = match heard {
            Ok(told) => told,
            Err(error) => {
                if !error.may_have_executed() {
                    self.words[index] = Word::NotHeld;
                }
                if error.kind() == StoreErrorKind::Quarantined {
                    self.quarantined.push(error.clone());
                }
                return Vote::Silent(error.may_have_executed());
            }
        };
        self.words[index] = Word::NotHeld;
        match &told.answer.reply {
            Reply::Granted(grant) => {
                self.words[index] = held(&told, grant);
                self.nodes.ballots().saw(grant.token);
                Vote::Granted(grant.token)
            }
            Reply::Busy { retry_after } => Vote::Busy(*retry_after),
            Reply::Stale => Vote::Stale,
            // A wrong clock, there or here, is no word on who holds the lock.
            Reply::Late | Reply::Refused(Refusal::Ballot) => Vote::Silent(false),
            Reply::Refused(refusal) => Vote::Refused(*refusal),
            _ => Vote::Silent(true),
        }
    }

    /// Brings the nodes of a majority to one token. Only then does every majority of later callers
    /// have a node that gives nothing lower.
    async fn commit(&mut self, round: &mut Round, token: FencingToken, behind: &[usize]) {
        let nodes = self.nodes;
        let (id, ttl) = (self.request.id, self.request.ttl);
        let mut asking = Asking::new(nodes, nodes.clock.now() + nodes.acquire_timeout(ttl));
        for index in behind {
            let action = Action::Commit { id, token, ttl };
            asking.ask(*index, Operation::On { name: self.name.clone(), action });
        }
        while round.verdict() != Verdict::Agreed(token)
            && let Some((index, heard)) = asking.next().await
        {
            let vote = match heard.as_ref().map(|told| &told.answer.reply) {
                Ok(Reply::Granted(grant)) => Vote::Granted(grant.token),
                Ok(_) | Err(_) => Vote::Silent(true),
            };
            if let (Vote::Granted(_), Ok(told)) = (vote, &heard)
                && let Reply::Granted(grant) = &told.answer.reply
            {
                self.words[index] = held(told, grant);
            }
            round.vote(index, vote);
        }
    }

    fn won(self, token: FencingToken) -> Answer {
        let Self { nodes, request, started, .. } = self;
        let left = kept_for(&self.words, nodes.needed, started);
        let known = Known {
            claim: Some(Claim {
                mode: request.mode,
                nonce: request.nonce,
                facts: request.facts.clone(),
            }),
            ttl: request.ttl,
            token,
            unanswered: self.words.iter().map(|word| *word == Word::Open).collect(),
            words: self.words,
            until: started + left,
        };
        nodes.leases().insert(request.id, known, nodes.clock.now());
        let deadline_us = micros((started + left).since_origin());
        nodes.answer(started, Reply::Granted(Grant { token, deadline_us, contended: false }))
    }

    /// Releases what was granted, and cancels what may have been, also where there is no answer.
    /// Waits for those that hold it, or a retry would find its own minority in its way.
    async fn let_go(&mut self, round: &Round) -> Result<(), StoreError> {
        let (nodes, id) = (self.nodes, self.request.id);
        let now = nodes.clock.now();
        nodes.leases().end(id, now, now + self.request.ttl.max(TOMBSTONE_LIFE));
        let mut actions = Vec::new();
        let mut holding = 0;
        for (index, vote) in round.votes().iter().enumerate() {
            match vote.trace() {
                Trace::Held => {
                    let release = Action::Release { id, keep: Duration::ZERO, unanswered: false };
                    actions.push((index, release));
                    holding += 1;
                }
                Trace::MayBeHeld => {
                    self.barred[index] = true;
                    actions.push((index, Action::Cancel { id, unanswered: true }));
                }
                Trace::None => {}
            }
        }
        let mut heard = ending::start(nodes, self.name, actions, self.request.ttl)?;
        while holding > 0 {
            let Some((index, outcome)) = heard.recv().await else { break };
            if round.votes()[index].trace() == Trace::Held {
                holding -= 1;
                self.barred[index] |= outcome.is_err();
            }
        }
        if !self.barred.contains(&true) {
            // All of it was answered, so it can be asked for again.
            nodes.leases().reopen(id);
        }
        Ok(())
    }

    /// What a lost round means.
    fn lost(&mut self, round: &Round, verdict: &Verdict) -> Result<Answer, StoreError> {
        if *verdict != Verdict::Refused && self.left_out {
            // Some were left out, so another attempt may do better.
            return Ok(self.nodes.answer(self.started, Reply::Stale));
        }
        if *verdict != Verdict::Refused {
            // Without the quarantine it would have been won.
            let granted = round.count(|vote| matches!(vote, Vote::Granted(_)));
            let quarantined = self.quarantined.pop();
            return Err(match quarantined {
                Some(error) if granted + 1 + self.quarantined.len() >= self.nodes.needed => error,
                Some(_) | None => self.nodes.no_quorum(self.name, round),
            });
        }
        let refusal = round.votes().iter().find_map(|vote| match vote {
            Vote::Refused(refusal) => Some(*refusal),
            Vote::Busy(_) | Vote::Granted(_) | Vote::Open | Vote::Silent(_) | Vote::Stale => None,
        });
        let busy = round.count(|vote| matches!(vote, Vote::Busy(_)));
        let reply = match refusal {
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
        Ok(self.nodes.answer(self.started, reply))
    }
}

/// Whether those that have not answered are waited for although the round is lost: if the votes
/// were split it is tried again, and whoever was not heard could not be asked then.
fn is_worth_hearing(round: &Round) -> bool {
    round.is_split() && round.count(|vote| vote == Vote::Open) > 0
}

/// The acquire of one node, in its own time.
async fn ask_one(
    nodes: &Nodes,
    index: usize,
    name: &LockName,
    request: &Acquire,
    ballot_us: Option<u64>,
) -> Result<Told, StoreError> {
    let (node, clock) = (&nodes.nodes[index], &*nodes.clock);
    let on = |action| Operation::On { name: name.clone(), action };
    if !node.is_known() {
        node.ask(clock, on(Action::Inspect { limit: 0 })).await?;
    }
    let mut asked_again = false;
    loop {
        let now = clock.now();
        let counts_us = request.not_after_us.saturating_sub(micros(now.since_origin()));
        let not_after_us = node.not_after_us(now, Duration::from_micros(counts_us));
        let told = node
            .ask(
                clock,
                on(Action::Acquire(Acquire {
                    wait: false,
                    not_after_us: not_after_us.unwrap_or(request.not_after_us),
                    ballot_us,
                    ..request.clone()
                })),
            )
            .await?;
        // Its clock was set forward since it was last heard; now it has told the time.
        let was_late = told.answer.reply == Reply::Late;
        if !was_late || std::mem::replace(&mut asked_again, true) {
            return Ok(told);
        }
    }
}

/// What a grant of a node is worth.
pub(super) fn held(told: &Told, grant: &Grant) -> Word {
    let left_us = grant.deadline_us.saturating_sub(told.answer.now.lease_us);
    Word::Held { sent: told.sent, left: Duration::from_micros(left_us) }
}
