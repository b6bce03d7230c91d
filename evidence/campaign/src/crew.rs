//! The processes of a round: they take turns at the locks of a place, and are stopped and killed.

use std::iter;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::{RedisServer, Worker};

use crate::fleet::{Call, Peer};
use crate::judge::Outcome;
use crate::nemesis;
use crate::place::Place;
use crate::plan::Plan;
use crate::process::TAKE_STOCK;
use crate::promise::{Log, now_ns};
use crate::random::Random;
use crate::stall;
use crate::topology::Topology;

/// How often the driver may disturb a process.
const TICK: Duration = Duration::from_millis(20);

/// The processes of a round.
pub(crate) struct Crew<'a> {
    pub(crate) topology: Topology,
    /// The other programs that share the names.
    pub(crate) peers: &'a [Peer],
    pub(crate) plan: Plan,
    pub(crate) url: String,
    pub(crate) protected: u16,
    pub(crate) directory: PathBuf,
    pub(crate) log: Arc<Log>,
    pub(crate) random: Random,
    pub(crate) members: Vec<Member>,
    pub(crate) started: u64,
    pub(crate) outcome: &'a mut Outcome,
}

pub(crate) struct Member {
    /// The other program that it is a process of; `None`: ours.
    peer: Option<Peer>,
    process: Worker,
    number: u64,
    stop: Option<Stop>,
}

/// A process is stopped.
struct Stop {
    since_ns: u64,
    until: Instant,
}

impl Member {
    fn stop(&mut self, until: Instant) {
        self.stop = Some(Stop { since_ns: now_ns(), until });
        self.process.stop();
    }

    fn cont(&mut self, log: &Log) {
        if let Some(stop) = self.stop.take() {
            self.process.cont();
            log.stopped(self.number, stop.since_ns, now_ns());
        }
    }
}

/// Tells the threads of a scope to end, also if the scope panics, because it waits for them.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Crew<'_> {
    /// Works for the given time, and comes to rest. Returns what is wrong afterwards.
    pub(crate) fn work(
        &mut self,
        span: Duration,
        place: &mut Place,
        random: Random,
    ) -> Vec<(&'static str, String)> {
        let own = iter::repeat_n(None, self.plan.processes);
        let peers = self.peers.iter().copied().map(Some);
        for peer in own.chain(peers).collect::<Vec<_>>() {
            let member = self.start(peer);
            self.members.push(member);
        }
        let (is_over, directory) = (AtomicBool::new(false), self.directory.clone());
        let (is_done, log) = (AtomicBool::new(false), Arc::clone(&self.log));
        let ports: Vec<_> = place.all().into_iter().map(RedisServer::port).collect();
        thread::scope(|scope| {
            let (hurts, watches) = (SetAtEnd(&is_over), SetAtEnd(&is_done));
            scope.spawn(|| stall::watch_until(&log, &is_done));
            for port in ports {
                let (log, is_done) = (&log, &is_done);
                scope.spawn(move || stall::watch_server(port, log, is_done));
            }
            let hurting = scope.spawn(|| nemesis::hurt(place, random, &directory, &is_over));
            let end = Instant::now() + span;
            while Instant::now() < end {
                self.disturb();
                thread::sleep(TICK);
            }
            drop(hurts);
            // The last fault may need a process that is stopped: `PAUSE` waits for its transaction.
            while !hurting.is_finished() {
                self.continue_due();
                thread::sleep(TICK);
            }
            if let Err(panic) = hurting.join() {
                resume_unwind(panic);
            }
            let wrong = self.rest();
            drop(watches);
            wrong
        })
    }

    fn start(&mut self, peer: Option<Peer>) -> Member {
        self.started += 1;
        let (number, seed) = (self.started, self.random.seed());
        let call = Call {
            protected: self.protected,
            directory: &self.directory,
            number,
            seed,
            ttl: self.plan.longest_ttl(),
        };
        let process = match peer {
            Some(peer) => peer.start(&self.url, &call),
            None => {
                let directory = self.directory.display().to_string();
                let [protected, number, seed] =
                    [self.protected.into(), number, seed].map(|value: u64| value.to_string());
                let name = self.topology.name();
                Worker::start(&[&name, &self.url, &protected, &directory, &number, &seed])
            }
        };
        Member { peer, process, number, stop: None }
    }

    /// Continues the processes whose time has come.
    fn continue_due(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            if member.stop.as_ref().is_some_and(|stop| stop.until <= now) {
                member.cont(&self.log);
            }
        }
    }

    /// Continues processes whose time has come; sometimes stops or kills a process.
    fn disturb(&mut self) {
        self.continue_due();
        let chosen = self.random.below(self.members.len());
        let longest_stop = self.plan.longest_ttl() * 3;
        // On average, a stop lasts a quarter of that, and one process in five is stopped.
        let ticks = 5 * longest_stop.as_millis() / 4 / TICK.as_millis();
        let stopping = 1_000 * self.members.len() / ticks as usize;
        match self.random.below(1_000) {
            choice if choice < stopping && self.members[chosen].stop.is_none() => {
                self.outcome.processes_stopped += 1;
                let span = self.random.up_to(longest_stop);
                let span = self.random.up_to(span);
                self.members[chosen].stop(Instant::now() + span);
            }
            985.. if self.members.len() > 1 => {
                self.outcome.processes_killed += 1;
                self.members[chosen].process.kill9();
                self.members[chosen] = self.start(self.members[chosen].peer);
            }
            _ => {}
        }
    }

    /// The place is healed: everybody is served, and then nothing is left behind.
    fn rest(&mut self) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        for member in &mut self.members {
            member.cont(&self.log);
            member.process.tell("stop");
        }
        for member in &mut self.members {
            let line = member.process.hear().unwrap_or_default();
            let served = line.strip_prefix("served ").and_then(|count| count.parse::<u64>().ok());
            // A process of another program may have started a moment ago.
            let least = u64::from(member.peer.is_none());
            if served.is_none_or(|served| served < least) {
                wrong.push(("I8", format!("a process was not served: {line:?}")));
            }
        }
        if !wrong.is_empty() {
            self.members.clear();
        }
        self.members.retain(|member| member.peer.is_none());
        for (at, mut member) in self.members.drain(..).enumerate() {
            member.process.tell(if at == 0 { TAKE_STOCK } else { "rest" });
            match member.process.hear().as_deref() {
                Some("at rest") => member.process.finish(),
                left => wrong.push(("I7", format!("something is left behind: {left:?}"))),
            }
        }
        wrong
    }
}
