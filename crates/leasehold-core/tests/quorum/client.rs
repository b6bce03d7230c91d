//! How clients react to answers. `leasehold_core::quorum` itself counts the votes.

use std::time::Duration;

use leasehold_core::quorum::{NodeVote, RenewTally, Round, Trace, Verdict, Vote};
use leasehold_core::{FencingToken, Refusal, Reply};

use super::scenario::{NODES, Protection, World};
use super::state::{Kind, Lease, Phase, Renewal, Request, State, Told};

impl State {
    pub(super) fn begin(&mut self, world: &World, number: u8, ballot_us: u64) {
        let (newest, time) = (self.newest(), self.time);
        let client = &mut self.clients[usize::from(number)];
        (client.newest, client.began) = (newest, time);
        let round = Round::new(NODES, world.needed(), Some(ballot_us));
        client.phase = Phase::Asking(round);
        client.unanswered = [1; NODES];
        for node in 0..NODES {
            self.send(number, node, Kind::Take { ballot_us });
        }
    }

    pub(super) fn hear(&mut self, world: &World, request: Request, reply: &Reply) {
        match request.kind {
            Kind::Claim(_) => self.hear_of_claim(world, request, reply),
            Kind::Describe(token) => self.hear_of_description(world, request, token, reply),
            Kind::End { .. } => {}
            Kind::Join(_) => self.hear_of_join(world, request, reply),
            Kind::Keep => self.hear_of_renewal(world, request, reply),
            Kind::Take { .. } => self.hear_of_take(world, request, reply),
        }
    }

    fn hear_of_take(&mut self, world: &World, request: Request, reply: &Reply) {
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Asking(round) = &mut client.phase else { return };
        let vote = match reply {
            Reply::Granted(grant) => Vote::Granted(grant.token),
            Reply::Busy { .. } => Vote::Busy(Duration::ZERO),
            Reply::Closed => Vote::Closed,
            Reply::Refused(Refusal::Ballot) => Vote::Silent(false),
            other => panic!("{other:?}"),
        };
        round.vote(request.node, vote);
        client.unanswered[request.node] -= 1;
        self.settle(world, request.from);
    }

    fn hear_of_description(
        &mut self,
        world: &World,
        request: Request,
        token: FencingToken,
        reply: &Reply,
    ) {
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Committing(round, _) = &mut client.phase else { return };
        let vote = match reply {
            Reply::Kept { .. } => Vote::Granted(token),
            _ => Vote::Silent(true),
        };
        round.vote(request.node, vote);
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
                    self.send(number, node, Kind::Describe(token));
                }
            }
            Verdict::Open => {}
            Verdict::Refused | Verdict::TooFew => self.let_go(number),
        }
    }

    fn win(&mut self, world: &World, number: u8, token: FencingToken) {
        let client = &mut self.clients[usize::from(number)];
        let until = client.began + world.ttl;
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
                Trace::Held => self.send(number, node, Kind::End { closes: false }),
                Trace::MayBeHeld => self.send(number, node, Kind::End { closes: true }),
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
            self.send(number, node, Kind::End { closes: copies > 0 });
        }
    }

    pub(super) fn renew(&mut self, world: &World, number: u8) {
        let (newest, began) = (self.newest(), self.time);
        if let Phase::Holding(lease) = &mut self.clients[usize::from(number)].phase {
            lease.renewals += 1;
            let tally = RenewTally::new(NODES, world.needed_to_renew());
            lease.renewal = Some(Renewal { began, is_heard: [false; NODES], tally, newest });
        }
        for node in 0..NODES {
            self.send(number, node, Kind::Keep);
        }
    }

    fn hear_of_renewal(&mut self, world: &World, request: Request, reply: &Reply) {
        let time = self.time;
        let client = &mut self.clients[usize::from(request.from)];
        if let (Phase::Holding(lease), Reply::NotHeld) = (&client.phase, reply)
            && (world.end == 0 || time < lease.until)
        {
            // If the node knows that it may have forgotten the lease, it gives it back.
            let token = lease.token;
            client.unanswered[request.node] += 1;
            self.send(request.from, request.node, Kind::Claim(token));
        } else {
            self.count(world, request, reply);
        }
    }

    fn hear_of_claim(&mut self, world: &World, request: Request, reply: &Reply) {
        let may_join = world.joins && !self.nodes[request.node].is_in_quarantine(self.time);
        let time = self.time;
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Holding(lease) = &client.phase else { return };
        if *reply == Reply::NotHeld && may_join && (world.end == 0 || time < lease.until) {
            // The node may grant the name as it does to anybody.
            let token = lease.token;
            self.send(request.from, request.node, Kind::Join(token));
        } else {
            self.hear_the_last(world, request, reply);
        }
    }

    fn hear_of_join(&mut self, world: &World, request: Request, reply: &Reply) {
        let is_in_quarantine = self.nodes[request.node].is_in_quarantine(self.time);
        match reply {
            Reply::Busy { .. } if !is_in_quarantine => {
                self.hear_the_last(world, request, &Reply::NotHeld);
            }
            reply => self.hear_the_last(world, request, reply),
        }
    }

    /// Hears of the last request of a renewal to a node that lacks the lease.
    fn hear_the_last(&mut self, world: &World, request: Request, reply: &Reply) {
        let client = &mut self.clients[usize::from(request.from)];
        let unanswered = &mut client.unanswered[request.node];
        *unanswered = unanswered.saturating_sub(1);
        self.count(world, request, reply);
    }

    /// Counts one node's answer to a renewal.
    fn count(&mut self, world: &World, request: Request, reply: &Reply) {
        let time = self.time;
        let client = &mut self.clients[usize::from(request.from)];
        let Phase::Holding(lease) = &mut client.phase else { return };
        let Some(renewal) = &mut lease.renewal else { return };
        // A lease that has ended at its holder does not come back.
        if request.sent < renewal.began || world.end > 0 && time >= lease.until {
            return;
        }
        if std::mem::replace(&mut renewal.is_heard[request.node], true) {
            return;
        }
        let vote = NodeVote::from(reply);
        if vote == NodeVote::NotHeld && !world.has(Protection::Unanswered) {
            client.unanswered[request.node] = 0;
        }
        renewal.tally.add(vote);
        if renewal.tally.is_extended() {
            lease.until = lease.until.max(renewal.began + world.ttl);
        }
        let is_overtaken = renewal.newest.is_some_and(|newest| newest > lease.token);
        self.was_overtaken |= renewal.tally.is_extended() && is_overtaken;
        self.was_told_of_loss |= world.in_turn && renewal.tally.is_lost();
        self.nodes[request.node].is_behind = false;
    }
}
