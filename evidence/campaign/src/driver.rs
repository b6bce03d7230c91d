//! Runs a topology: rounds, in which processes take turns at the locks of a place and are stopped
//! and killed while the nemesis hurts the place. After each round everybody must be served, nothing
//! must be left behind, and what was written is judged.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_core::model::{DEFAULT_RETENTION, TOMBSTONE_LIFE};
use leasehold_testkit::{RedisServer, Worker, must};

use crate::control::{self, Control};
use crate::judge::{OF_EXCLUSION, OF_TOKENS, Verdict};
use crate::nemesis;
use crate::outcome::Outcome;
use crate::place::Place;
use crate::plan::{PREFIX, Plan};
use crate::process::TAKE_STOCK;
use crate::promise::{Log, now_ns};
use crate::random::Random;
use crate::settings::Settings;
use crate::stall;
use crate::topology::{Promised, Topology};

/// A round takes so long: what is written in it is judged at once, and then thrown away.
const ROUND: Duration = Duration::from_secs(20);

/// After a run of so long, it is waited until nothing is left of its names.
const LONG: Duration = Duration::from_mins(10);

/// By then it must be: a record is kept for half as long again as the retention, after a tombstone
/// in it has ended.
const FORGOTTEN: Duration =
    TOMBSTONE_LIFE.saturating_add(DEFAULT_RETENTION.saturating_mul(2)).saturating_add(PAUSE);

/// How often servers are asked for what is left.
const PAUSE: Duration = Duration::from_secs(5);

/// How often something is done to a process.
const TICK: Duration = Duration::from_millis(20);

/// The number of this process among those of a round.
const DRIVER: u64 = 0;

/// Whose processes take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Ours,
    Control(Control),
}

/// Runs on one topology, and stops the test if a promise was broken.
pub(crate) fn run(topology: Topology) {
    run_with(topology, Who::Ours);
}

/// Runs a topology on which nothing is promised; gives how often two held at once there.
pub(crate) fn run_without_promise(topology: Topology) -> Option<u64> {
    run_with(topology, Who::Ours).map(|outcome| outcome.double_holds)
}

/// Runs a negative control on one topology, if it can be had here; what it breaks is counted.
pub(crate) fn run_control(topology: Topology, control: Control) {
    match control.is_installed() {
        true => drop(run_with(topology, Who::Control(control))),
        false => {
            println!("left out: {} is not installed: `cargo xtask test` does that", control.name());
        }
    }
}

fn run_with(topology: Topology, who: Who) -> Option<Outcome> {
    let settings = Settings::read();
    let directory = must(tempfile::Builder::new().prefix("leasehold-campaign-").tempdir());
    let Some(mut place) = Place::start(topology, directory.path()) else {
        assert!(std::env::var_os("CI").is_none(), "{}: not installed", topology.name());
        println!("left out: {}: its servers are not installed", topology.name());
        return None;
    };
    let protected = must(RedisServer::start());
    let mut random = Random::new(settings.seed);
    let promised = match topology.promised() {
        Promised::Both => "both",
        Promised::Order => "order",
        Promised::Nothing => "nothing",
    };
    let (lock, promised) = match who {
        Who::Ours => ("leasehold", promised),
        Who::Control(control) => (control.name(), "nothing"),
    };
    let mut outcome = Outcome::new(topology.name(), lock, promised, settings.seed);
    outcome.server = version(&protected);
    let (began, mut highest) = (Instant::now(), HashMap::new());
    // Numbers go on from round to round: what is protected stays, and no value may come twice.
    let mut started = 0;
    while outcome.rounds == 0 || began.elapsed() < settings.span {
        let round = directory.path().join(format!("round-{}", outcome.rounds));
        must(std::fs::create_dir(&round));
        let mut crew = Crew {
            topology,
            who,
            plan: place.plan,
            url: place.url.clone(),
            address: control::address(&place),
            protected: protected.port(),
            log: Arc::new(Log::create(&round, DRIVER)),
            directory: round.clone(),
            random: Random::new(random.seed()),
            members: Vec::new(),
            started,
            outcome: &mut outcome,
        };
        let left = settings.span.saturating_sub(began.elapsed());
        let served = crew.work(ROUND.min(left), &mut place, Random::new(random.seed()));
        started = crew.started;
        let mut verdict = Verdict::of(&round, &mut highest);
        served.iter().for_each(|(check, what)| verdict.violate(check, what));
        if who != Who::Ours {
            // They have no tokens, and numbers in the place of those.
            verdict.violations.retain(|check, _| !OF_TOKENS.contains(check));
        }
        outcome.add(&verdict);
        verdict.cases.retain(|(check, _)| who == Who::Ours && is_wrong(topology, check));
        if !verdict.cases.is_empty() {
            fail(&settings, &mut outcome, &verdict, &round, began.elapsed());
        }
        must(std::fs::remove_dir_all(&round));
    }
    let took = began.elapsed();
    let remains = match who {
        Who::Ours if settings.span >= LONG => what_remains(&place),
        _ => Vec::new(),
    };
    if !remains.is_empty() {
        *outcome.violations.entry("I11".to_owned()).or_default() += 1;
    }
    if let Some(runs) = &settings.runs {
        outcome.write(runs, took);
    }
    outcome.seconds = took.as_secs_f64();
    println!("{}", outcome.line());
    assert!(remains.is_empty(), "I11: keys that nobody has used for {FORGOTTEN:?}: {remains:?}");
    println!("{}: {:?}", topology.name(), outcome.events);
    Some(outcome)
}

/// The keys of locks that are there still when they should have been forgotten: waits for that.
fn what_remains(place: &Place) -> Vec<String> {
    let since = Instant::now();
    loop {
        let keys = |server: &&RedisServer| {
            let keys = server.command::<Vec<String>>(&format!("KEYS *{PREFIX}*"));
            keys.unwrap_or_default()
        };
        let remains: Vec<_> = place.all().iter().flat_map(keys).collect();
        if remains.is_empty() || since.elapsed() >= FORGOTTEN {
            return remains;
        }
        thread::sleep(PAUSE);
    }
}

/// Whether what a check has found must not be on this topology.
fn is_wrong(topology: Topology, check: &str) -> bool {
    match topology.promised() {
        Promised::Both => true,
        Promised::Order => !OF_EXCLUSION.contains(&check),
        Promised::Nothing => false,
    }
}

/// Says what is wrong, where all of it is, and how to try again.
fn fail(
    settings: &Settings,
    outcome: &mut Outcome,
    verdict: &Verdict,
    round: &Path,
    took: Duration,
) -> ! {
    let kept = round.with_file_name("kept");
    let kept = std::fs::rename(round, &kept).map_or_else(|_| round.to_owned(), |()| kept);
    if let Some(runs) = &settings.runs {
        outcome.write(runs, took);
        let copy = runs.join(format!("{}-{}-failed", outcome.topology, settings.seed));
        copy_all(&kept, &copy);
        println!("all that was written of this round is in {}", copy.display());
    }
    let cases: Vec<_> =
        verdict.cases.iter().map(|(check, case)| format!("{check}: {case}")).collect();
    panic!(
        "{}: {:?} in round {} after {took:.0?}\n{}\nTry the same choices again: \
         LEASEHOLD_CAMPAIGN={}s LEASEHOLD_CAMPAIGN_SEED={} \
         cargo test --package leasehold-campaign -- {}_",
        outcome.topology,
        verdict.violations,
        outcome.rounds,
        cases.join("\n"),
        settings.span.as_secs(),
        settings.seed,
        outcome.topology,
    );
}

fn copy_all(from: &Path, to: &Path) {
    must(std::fs::create_dir_all(to));
    for entry in must(std::fs::read_dir(from)) {
        let entry = must(entry);
        must(std::fs::copy(entry.path(), to.join(entry.file_name())));
    }
}

/// What a server calls itself.
pub(crate) fn version(server: &RedisServer) -> String {
    let info = must(server.info("server"));
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    };
    match field("valkey_version") {
        version if version.is_empty() => format!("Redis {}", field("redis_version")),
        version => format!("Valkey {version}"),
    }
}

/// The processes of a round.
struct Crew<'a> {
    topology: Topology,
    who: Who,
    plan: Plan,
    url: String,
    /// The same place, as controls are told.
    address: Option<String>,
    protected: u16,
    directory: PathBuf,
    /// Its own.
    log: Arc<Log>,
    random: Random,
    members: Vec<Member>,
    started: u64,
    outcome: &'a mut Outcome,
}

struct Member {
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

impl Crew<'_> {
    /// Works for the given time, and comes to rest; gives what is wrong with that.
    fn work(
        &mut self,
        span: Duration,
        place: &mut Place,
        random: Random,
    ) -> Vec<(&'static str, String)> {
        for _ in 0..self.plan.processes {
            let member = self.start();
            self.members.push(member);
        }
        let (is_over, directory) = (AtomicBool::new(false), self.directory.clone());
        let (is_done, log) = (AtomicBool::new(false), Arc::clone(&self.log));
        let ports: Vec<_> = place.all().into_iter().map(RedisServer::port).collect();
        thread::scope(|scope| {
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
            is_over.store(true, Ordering::Relaxed);
            hurting.join().unwrap();
            let wrong = self.rest();
            is_done.store(true, Ordering::Relaxed);
            wrong
        })
    }

    fn start(&mut self) -> Member {
        self.started += 1;
        let (number, seed) = (self.started, self.random.seed());
        if let Who::Control(control) = self.who {
            let Some(address) = &self.address else { panic!("no control runs on such a place") };
            let log = self.directory.join(format!("{number}.log"));
            let ttl = self.plan.longest_ttl();
            let process = control.start(address, self.protected, &log, (number, seed), ttl);
            return Member { process, number, stop: None };
        }
        let (text, seed) = (number.to_string(), seed.to_string());
        let (directory, protected) = (self.directory.display(), self.protected.to_string());
        let (name, directory) = (self.topology.name(), directory.to_string());
        let arguments = [name, &self.url, &protected, &directory, &text, &seed];
        Member { process: Worker::start(&arguments), number, stop: None }
    }

    /// Lets those go on whose time has come; stops or kills somebody now and then.
    fn disturb(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            if member.stop.as_ref().is_some_and(|stop| stop.until <= now) {
                member.cont(&self.log);
            }
        }
        let chosen = self.random.below(self.members.len());
        let longest_stop = self.plan.longest_ttl() * 3;
        // On average a quarter of it, and one process in five is stopped.
        let ticks = 5 * longest_stop.as_millis() / 4 / TICK.as_millis();
        let stopping = 1_000 * self.members.len() / ticks as usize;
        match self.random.below(1_000) {
            choice if choice < stopping && self.members[chosen].stop.is_none() => {
                self.outcome.processes_stopped += 1;
                let span = self.random.up_to(longest_stop);
                let span = self.random.up_to(span);
                self.members[chosen].stop(now + span);
            }
            985.. if self.members.len() > 1 => {
                self.outcome.processes_killed += 1;
                self.members[chosen].process.kill9();
                self.members[chosen] = self.start();
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
            let served = line.strip_prefix("served ").and_then(|count| count.parse().ok());
            if served <= Some(0_u64) {
                wrong.push(("I8", format!("a process was not served: {line:?}")));
            }
        }
        if matches!(self.who, Who::Control(_)) {
            self.members.clear();
            return wrong;
        }
        if !wrong.is_empty() {
            self.members.clear();
        }
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
