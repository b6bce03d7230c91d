//! What is done to one lease on all nodes: release, cancel, describe, change of mode, revocation.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::model::{NOT_AFTER, TOMBSTONE_LIFE};
use leasehold_core::quorum::{Word, kept_for};
use leasehold_core::{
    Action, Answer, Cancelled, Facts, FencingToken, Grant, HolderId, Instant, LockName, Mode,
    Operation, Reply, StoreError,
};

use super::acquire::held;
use super::asking::{Asking, Heard};
use super::node::micros;
use super::{Nodes, ending, news};
use crate::background;
use crate::store::clocked::TimedAnswer;

/// One name and the nodes that are asked about it.
pub(super) struct Changing<'a> {
    pub(super) nodes: &'a Arc<Nodes>,
    pub(super) name: &'a LockName,
}

/// What the nodes have said so far.
#[derive(Debug, Default)]
struct Said {
    told: Vec<(usize, TimedAnswer)>,
    errors: Vec<StoreError>,
}

impl Said {
    fn add(&mut self, (index, outcome): Heard) {
        match outcome {
            Ok(told) => self.told.push((index, told)),
            Err(error) => self.errors.push(error),
        }
    }

    fn replies(&self) -> impl Iterator<Item = &Reply> {
        self.told.iter().map(|(_, told)| &told.answer.reply)
    }

    fn count(&self, of: impl Fn(&Reply) -> bool) -> usize {
        self.replies().filter(|reply| of(reply)).count()
    }

    fn granted(&self) -> usize {
        self.count(is_granted)
    }

    fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        self.replies().filter_map(|reply| match reply {
            Reply::Granted(grant) => Some(grant.token),
            _ => None,
        })
    }

    /// The word of those that do not hold it, if they leave no majority.
    fn loss(&self, nodes: &Nodes) -> Option<Reply> {
        let not_held = |reply: &Reply| matches!(reply, Reply::NotHeld { .. });
        let revoked = self.count(|reply| matches!(reply, Reply::Revoked(_)));
        if self.count(not_held) + revoked <= nodes.len() - nodes.needed {
            return None;
        }
        let newest = self.replies().filter_map(|reply| match reply {
            Reply::NotHeld { newest } => *newest,
            _ => None,
        });
        Some(match revoked {
            0 => Reply::NotHeld { newest: newest.max() },
            _ => Reply::Revoked(true),
        })
    }
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Granted(_))
}

impl Changing<'_> {
    fn undecided(&self, said: &Said) -> StoreError {
        self.nodes.undecided(self.name.as_str(), said.told.len(), &said.errors)
    }

    fn on(&self, action: Action) -> Operation {
        Operation::On { name: self.name.clone(), action }
    }

    /// Asks all nodes until the outcome is certain.
    async fn ask(&self, action: Action, is_certain: impl Fn(&Said) -> bool) -> Said {
        let until = self.nodes.clock.now() + self.nodes.patience();
        let mut asking = Asking::all(self.nodes, until, &self.on(action));
        let mut said = Said::default();
        while !is_certain(&said)
            && let Some(heard) = asking.next().await
        {
            said.add(heard);
        }
        said
    }

    /// Ends a hold everywhere; says what came of it as soon as that is certain. Whoever waits is
    /// told then.
    pub(super) async fn release(
        &self,
        id: HolderId,
        keep: Duration,
        unanswered: bool,
    ) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.nodes.clock.now());
        if nodes.nodes.iter().any(|node| node.owed.contains(id)) {
            // It has been asked for, and whoever asked was told that too few had answered.
            ending::until_done(nodes, id).await;
            if keep.is_zero() {
                self.tell_free();
            }
            return Ok(nodes.answer(started, Reply::Released));
        }
        let known = nodes.leases().remove(id);
        let ttl = known.as_ref().map_or(NOT_AFTER, |known| known.ttl);
        let release = |index: usize| {
            // What may still be on its way there must find that it is over.
            let may_arrive = known.as_ref().is_some_and(|known| known.unanswered[index]);
            (index, Action::Release { id, keep, unanswered: unanswered || may_arrive })
        };
        let actions = (0..nodes.len()).map(release).collect();
        let mut heard = ending::start(nodes, self.name, id, actions, ttl)?;
        let mut said = Said::default();
        let mut missing = nodes.len();
        while missing > 0
            && let Some(each) = heard.recv().await
        {
            missing -= 1;
            said.add(each);
            if said.count(|reply| *reply == Reply::Released) >= nodes.needed {
                if keep.is_zero() {
                    self.tell_free();
                }
                return Ok(nodes.answer(started, Reply::Released));
            }
            if let Some(loss) = said.loss(nodes) {
                return Ok(nodes.answer(started, loss));
            }
        }
        Err(self.undecided(&said))
    }

    /// Tells whoever waits that it is free. A hint: if nobody can be told, they find out by asking.
    fn tell_free(&self) {
        let (nodes, name) = (Arc::clone(self.nodes), self.name.clone());
        let telling = async move { drop(news::tell(&nodes, &name, news::FREE).await) };
        let _ = background::spawn(&*self.nodes.clock, Box::pin(telling));
    }

    /// Ends an attempt everywhere.
    pub(super) async fn cancel(
        &self,
        id: HolderId,
        unanswered: bool,
    ) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.nodes.clock.now());
        let ttl = nodes.leases().remove(id).map_or(NOT_AFTER, |known| known.ttl);
        if nodes.leases().end(id, started, started + ttl.max(TOMBSTONE_LIFE)) {
            // All has been asked for, and no majority was ever granted.
            ending::until_done(nodes, id).await;
            return Ok(nodes.answer(started, Reply::Cancelled(Cancelled::Unknown)));
        }
        let cancel = |index| (index, Action::Cancel { id, unanswered });
        let actions = (0..nodes.len()).map(cancel).collect();
        let mut heard = ending::start(nodes, self.name, id, actions, ttl)?;
        let mut said = Said::default();
        let mut missing = nodes.len();
        while said.told.len() < nodes.needed
            && missing > 0
            && let Some(each) = heard.recv().await
        {
            missing -= 1;
            said.add(each);
        }
        if said.told.len() < nodes.needed {
            return Err(self.undecided(&said));
        }
        let is = |what| said.count(|reply| *reply == Reply::Cancelled(what)) > 0;
        let cancelled =
            if is(Cancelled::Released) { Cancelled::Released } else { Cancelled::Unknown };
        if cancelled == Cancelled::Released {
            self.tell_free();
        }
        Ok(nodes.answer(started, Reply::Cancelled(cancelled)))
    }

    pub(super) async fn describe(&self, id: HolderId, facts: Facts) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.nodes.clock.now());
        if let Some(known) = nodes.leases().get_mut(id) {
            known.claim.facts = facts.clone();
        }
        let describe = Action::Describe { id, facts };
        let said = self.ask_holders(describe).await;
        self.granted_or_lost(id, started, &said)
    }

    /// Asks those that may hold a lease, until a majority does, or none can.
    async fn ask_holders(&self, action: Action) -> Said {
        let nodes = self.nodes;
        self.ask(action, |said| said.granted() >= nodes.needed || said.loss(nodes).is_some()).await
    }

    fn granted_or_lost(
        &self,
        id: HolderId,
        started: Instant,
        said: &Said,
    ) -> Result<Answer, StoreError> {
        let nodes = self.nodes;
        if said.granted() >= nodes.needed {
            let reply = Reply::Granted(self.unchanged(id, started, said));
            return Ok(nodes.answer(started, reply));
        }
        match said.loss(nodes) {
            Some(loss) => Ok(nodes.answer(started, loss)),
            None => Err(self.undecided(said)),
        }
    }

    /// The lease as it is: what was asked moves no deadline.
    fn unchanged(&self, id: HolderId, started: Instant, said: &Said) -> Grant {
        let nodes = self.nodes;
        let known = nodes.leases().get(id).map(|known| (known.token, known.until));
        let highest = || said.tokens().max().unwrap_or(FencingToken::at_us(0));
        let (token, until) = known.unwrap_or_else(|| (highest(), started));
        Grant::new(token, micros(until.since_origin()))
    }

    /// A reader becomes the writer, or a writer a reader. All nodes are given the same number.
    pub(super) async fn change_mode(
        &self,
        id: HolderId,
        mode: Mode,
        change: u64,
    ) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.nodes.clock.now());
        let said = self.ask_holders(Action::ChangeMode { id, mode, change }).await;
        if said.granted() >= nodes.needed {
            return match mode {
                Mode::Exclusive => self.upgraded(id, change, started, &said).await,
                _ => {
                    self.settle(id, (mode, change));
                    self.granted_or_lost(id, started, &said)
                }
            };
        }
        if let Some(loss) = said.loss(nodes) {
            return Ok(nodes.answer(started, loss));
        }
        // It was overtaken by another request of the same holder.
        let is_final = |reply: &&Reply| matches!(reply, Reply::Refused(_) | Reply::Stale);
        if let Some(reply) = said.replies().find(is_final) {
            return Ok(nodes.answer(started, reply.clone()));
        }
        let busy = said.replies().filter_map(|reply| match reply {
            Reply::Busy { retry_after } => Some(*retry_after),
            _ => None,
        });
        let busy: Vec<Duration> = busy.collect();
        if said.granted() + busy.len() >= nodes.needed {
            let retry_after = busy.into_iter().max().unwrap_or_default();
            return Ok(nodes.answer(started, Reply::Busy { retry_after }));
        }
        match said.count(|reply| *reply == Reply::WouldDeadlock) {
            0 => Err(self.undecided(&said)),
            // Where this one was first, its holder takes the wish back.
            _ => Ok(nodes.answer(started, Reply::WouldDeadlock)),
        }
    }

    /// A majority has made a reader the writer. Each has minted a token of its own, and all must
    /// come to one.
    ///
    /// From now on only those count that say so. Of the others the reader's lease is left, beside
    /// which they admit readers, and which may last longer than the writer's does.
    async fn upgraded(
        &self,
        id: HolderId,
        change: u64,
        started: Instant,
        said: &Said,
    ) -> Result<Answer, StoreError> {
        let nodes = self.nodes;
        let ttl = nodes.leases().get(id).map_or(NOT_AFTER, |known| known.ttl);
        let token = said.tokens().max().unwrap_or(FencingToken::at_us(0));
        let is_writer_at = |index: usize| {
            said.told.iter().any(|(at, told)| *at == index && is_granted(&told.answer.reply))
        };
        let agreed = |said: &Said| {
            let agreed = said.told.iter().filter_map(|(index, told)| match &told.answer.reply {
                Reply::Granted(grant) if grant.token == token && is_writer_at(*index) => {
                    Some((*index, held(told, grant)))
                }
                _ => None,
            });
            agreed.collect::<Vec<_>>()
        };
        let commit = Action::Commit { id, token, ttl };
        let committed = self
            .ask(commit, |said| agreed(said).len() >= nodes.needed || said.loss(nodes).is_some());
        let committed = committed.await;
        let agreed = agreed(&committed);
        if agreed.len() < nodes.needed {
            return match committed.loss(nodes) {
                Some(loss) => Ok(nodes.answer(started, loss)),
                // Asked again it is the writer already, and only the token is left to agree on.
                None => Err(self.undecided(&committed)),
            };
        }
        nodes.ballots().saw(token);
        self.settle(id, (Mode::Exclusive, change));
        if let Some(known) = nodes.leases().get_mut(id) {
            known.token = token;
            known.words.fill(Word::NotHeld);
            agreed.into_iter().for_each(|(index, word)| known.words[index] = word);
            known.until = started + kept_for(&known.words, nodes.needed, started);
        }
        let reply = Reply::Granted(self.unchanged(id, started, &committed));
        Ok(nodes.answer(started, reply))
    }

    /// Takes note of what is held from now on.
    fn settle(&self, id: HolderId, (mode, change): (Mode, u64)) {
        if let Some(known) = self.nodes.leases().get_mut(id) {
            (known.claim.mode, known.claim.change) = (mode, change);
        }
    }

    /// An operator ends the hold with this token.
    pub(super) async fn revoke(
        &self,
        id: HolderId,
        token: FencingToken,
        force: bool,
    ) -> Result<Answer, StoreError> {
        let (nodes, started) = (self.nodes, self.nodes.clock.now());
        let said = self
            .ask(Action::Revoke { id, token, force }, |said| {
                let (yes, no) = (Reply::Revoked(true), Reply::Revoked(false));
                said.count(|reply| *reply == yes) >= nodes.needed
                    || said.count(|reply| *reply == no) >= nodes.needed
            })
            .await;
        if said.told.len() < nodes.needed {
            return Err(self.undecided(&said));
        }
        let was_held = said.count(|reply| *reply == Reply::Revoked(true)) > 0;
        if was_held && force {
            self.tell_free();
        }
        Ok(nodes.answer(started, Reply::Revoked(was_held)))
    }
}
