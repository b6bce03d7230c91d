//! How clients react to answers. `leasehold_core::quorum` itself counts the votes.

use std::time::Duration;

use leasehold_core::quorum::{
    NodeHold, NodeVote, RenewTally, Round, Trace, Verdict, Vote, quorum_validity,
};
use leasehold_core::{FencingToken, Grant, Refusal, Reply};

use super::scenario::{NODES, Protection, World};
use super::state::{Kind, Lease, Phase, Renewal, Request, State, Told, instant};

impl State {
    pub(super) fn begin(&mut self, world: &World, number: u8, ballot_us: u64) {
        let (newest, time) = (self.newest(), self.time);
        let client = &mut self.clients[usize::from(number)];
        (client.newest, client.began, client.words) = (newest, time, vec![NodeHold::Open; NODES]);
        let round = Round::new(NODES, world.needed(), Some(ballot_us));
        client.phase = Phase::Asking(round);
        client.unanswered = [1; NODES];
        for node in 0..NODES {
            self.send(number, node, Kind::Acquire { ballot_us });
        }
    }

    pub(super) fn hear(&mut self, world: &World, request: Request, reply: &Reply) {
        match request.kind {
            Kind::Acquire { .. } => self.hear_of_acquire(world, request, reply),
            Kind::Cancel | Kind::Release { .. } => {}
            Kind::Commit(token) => self.hear_of_commit(world, request, token, reply),
            Kind::Reclaim { .. } => self.hear_of_reclaim(world, request, reply),
            Kind::Renew => self.hear_of_renewal(world, request, reply),
        }
    }

    fn hear_of_acquire(&mut self, world: &World, request: Request, reply: &Reply) {
        let word = self.word(request, reply);
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Asking(round) = &mut client.phase else { return };
        let vote = match reply {
            Reply::Granted(grant) => Vote::Granted(grant.token),
            Reply::Busy { .. } => Vote::Busy(Duration::ZERO),
            Reply::Stale => Vote::Stale,
            Reply::Late | Reply::Refused(Refusal::Ballot) => Vote::Silent(false),
            _ => Vote::Silent(true),
        };
        round.vote(request.node, vote);
        client.words[request.node] = word;
        client.unanswered[request.node] -= 1;
        self.settle(world, request.from);
    }

    fn hear_of_commit(
        &mut self,
        world: &World,
        request: Request,
        token: FencingToken,
        reply: &Reply,
    ) {
        let word = self.word(request, reply);
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Committing(round, _) = &mut client.phase else { return };
        let vote = match reply {
            Reply::Granted(grant) => Vote::Granted(grant.token),
            _ => Vote::Silent(true),
        };
        round.vote(request.node, vote);
        client.words[request.node] = word;
        if round.count(|vote| vote == Vote::Granted(token)) >= world.needed()
            && let Verdict::Agreed(token) = round.verdict()
        {
            self.win(world, request.from, token);
        }
    }

    /// Acts on the verdict of a round.
    fn settle(&mut self, world: &World, number: u8) {
        let Phase::Asking(round) = &self.clients[usize::from(number)].phase else { return };
        match round.verdict() {
            Verdict::Agreed(token) => self.win(world, number, token),
            Verdict::Commit { token, .. } if !world.has(Protection::Commit) => {
                self.win(world, number, token);
            }
            Verdict::Commit { token, nodes } => {
                let round = round.clone();
                self.clients[usize::from(number)].phase = Phase::Committing(round, token);
                for node in nodes {
                    self.send(number, node, Kind::Commit(token));
                }
            }
            Verdict::Open => {}
            Verdict::Refused | Verdict::TooFew => self.let_go(number),
        }
    }

    fn win(&mut self, world: &World, number: u8, token: FencingToken) {
        let client = &mut self.clients[usize::from(number)];
        let until = kept_until(world, &client.words, client.began);
        client.phase = Phase::Holding(Lease { token, until, renewals: 0, renewal: None });
        let newest = client.newest;
        self.told.push(Told { token, newest });
    }

    /// Waits for no more answers.
    pub(super) fn give_up(&mut self, world: &World, number: u8) {
        if let Phase::Asking(round) = &mut self.clients[usize::from(number)].phase {
            round.close();
            self.settle(world, number);
        } else {
            self.let_go(number);
        }
    }

    /// Ends what a lost round has left, also at nodes without an answer.
    fn let_go(&mut self, number: u8) {
        let client = &mut self.clients[usize::from(number)];
        let phase = client.end();
        let (Phase::Asking(round) | Phase::Committing(round, _)) = phase else { return };
        for (node, vote) in round.votes().iter().enumerate() {
            match vote.trace() {
                Trace::Held => self.send(number, node, Kind::Release { unanswered: false }),
                Trace::MayBeHeld => self.send(number, node, Kind::Cancel),
                Trace::None => {}
            }
        }
    }

    /// A holder has done its work.
    pub(super) fn leave(&mut self, number: u8) {
        let client = &mut self.clients[usize::from(number)];
        let unanswered = client.unanswered;
        client.end();
        for (node, copies) in unanswered.into_iter().enumerate() {
            let unanswered = copies > 0;
            self.send(number, node, Kind::Release { unanswered });
        }
    }

    pub(super) fn renew(&mut self, world: &World, number: u8) {
        let (newest, began) = (self.newest(), self.time);
        if let Phase::Holding(lease) = &mut self.clients[usize::from(number)].phase {
            lease.renewals += 1;
            let tally = RenewTally::new(NODES, world.needed());
            lease.renewal = Some(Renewal { began, tally, newest });
        }
        for node in 0..NODES {
            self.send(number, node, Kind::Renew);
        }
    }

    fn hear_of_renewal(&mut self, world: &World, request: Request, reply: &Reply) {
        let time = self.time;
        let client = &mut self.clients[usize::from(request.from)];
        if let (Phase::Holding(lease), Reply::NotHeld { newest }) = (&client.phase, reply)
            && newest.is_none_or(|newest| newest < lease.token)
            && (world.end == 0 || time < lease.until)
        {
            // The node has forgotten, or has granted nothing since, so the lease may be taken back.
            let (token, until) = (lease.token, lease.until);
            client.words[request.node] = NodeHold::Open;
            client.unanswered[request.node] += 1;
            self.send(request.from, request.node, Kind::Reclaim { token, until });
        } else {
            self.count(world, request, reply);
        }
    }

    fn hear_of_reclaim(&mut self, world: &World, request: Request, reply: &Reply) {
        let client = &mut self.clients[usize::from(request.from)];
        if matches!(client.phase, Phase::Holding(_)) {
            client.unanswered[request.node] = client.unanswered[request.node].saturating_sub(1);
        }
        self.count(world, request, reply);
    }

    /// Counts one node's answer to a renewal.
    fn count(&mut self, world: &World, request: Request, reply: &Reply) {
        let word = self.word(request, reply);
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Holding(lease) = &mut client.phase else { return };
        let Some(renewal) = &mut lease.renewal else { return };
        if request.sent < renewal.began {
            return;
        }
        client.words[request.node] = word;
        if word == NodeHold::NotHeld && !world.has(Protection::Unanswered) {
            client.unanswered[request.node] = 0;
        }
        renewal.tally.add(NodeVote::from(reply));
        lease.until = lease.until.max(kept_until(world, &client.words, renewal.began));
        let is_overtaken = renewal.newest.is_some_and(|newest| newest > lease.token);
        self.was_overtaken |= renewal.tally.is_extended() && is_overtaken;
        self.was_told_of_loss |= world.in_turn && renewal.tally.is_lost();
        self.nodes[request.node].is_behind = false;
    }

    fn word(&self, request: Request, reply: &Reply) -> NodeHold {
        let now_us = self.nodes[request.node].now(self.time).lease_us;
        match reply {
            Reply::Granted(Grant { deadline_us, .. }) => NodeHold::Held {
                sent: instant(request.sent),
                left: Duration::from_micros(deadline_us - now_us),
            },
            _ => NodeHold::NotHeld,
        }
    }
}

/// The second before which a lease may be relied on, by the answers to a renewal that began then.
fn kept_until(world: &World, words: &[NodeHold], began: u64) -> u64 {
    let needed = if world.has(Protection::Validity) { world.needed() } else { 1 };
    began + quorum_validity(words, needed, instant(began)).as_secs()
}
