//! Starts the processes of a run, stops and kills them, hurts the place, and has what they wrote
//! judged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::{Worker, must};

use crate::judge::Verdict;
use crate::plan::Plan;
use crate::random::Random;
use crate::topology::{Place, Topology, Trouble};

/// How long a run is, as a span: `LEASEHOLD_STRESS=2m`.
const SPAN: &str = "LEASEHOLD_STRESS";

/// Where nothing else is said: enough for what was found so far to be found again.
const SHORT: Duration = Duration::from_secs(6);

/// How often something is done to a process.
const TICK: Duration = Duration::from_millis(20);

/// The pause between two troubles of a place.
const PAUSE: Duration = Duration::from_millis(200);

/// What all choices of a run are drawn from; when they meet which moment is up to the machine.
const SEED: u64 = 0x1ea5e;

/// Runs on one topology, and stops the test if a promise was broken.
pub(crate) fn run(topology: Topology) {
    let span =
        std::env::var(SPAN).map_or(SHORT, |span| must(leasehold::time::parse_duration(&span)));
    let directory = must(tempfile::Builder::new().prefix("leasehold-stress-").tempdir());
    let place = topology.start(directory.path());
    let mut random = Random::new(SEED);
    let mut crew = Crew {
        topology,
        plan: topology.plan(),
        url: place.url.clone(),
        directory: directory.path().display().to_string(),
        random: Random::new(random.seed()),
        members: Vec::new(),
        started: 0,
        stops: 0,
        kills: 0,
    };
    let began = Instant::now();
    let troubles = crew.work(span, place, random);
    let (stops, kills, took) = (crew.stops, crew.kills, began.elapsed());
    let verdict = Verdict::of(directory.path());
    let violations: u64 = verdict.violations.values().sum();
    let count = |event: &str| verdict.events.get(event).copied().unwrap_or(0);
    println!(
        "{}: {} grants, {} hand-overs, {} upgrades ({} given up), {} adopts; {kills} kills, \
         {stops} stops, {troubles} troubles; {violations} violations; {:.0} s",
        topology.name(),
        verdict.grants,
        verdict.hand_overs,
        count("upgrade"),
        count("upgrade-given-up"),
        verdict.adopts,
        took.as_secs_f64(),
    );
    println!("{}: {:?}", topology.name(), verdict.events);
    assert!(
        verdict.violations.is_empty(),
        "{}: {:?}\n{}",
        topology.name(),
        verdict.violations,
        verdict.cases.join("\n")
    );
}

/// The processes of a run.
struct Crew {
    topology: Topology,
    plan: Plan,
    url: String,
    directory: String,
    random: Random,
    members: Vec<Member>,
    started: u64,
    stops: u64,
    kills: u64,
}

struct Member {
    process: Worker,
    /// When it goes on, while it is stopped.
    until: Option<Instant>,
}

impl Crew {
    /// Works for so long, and comes to rest; gives how often the place was hurt.
    fn work(&mut self, span: Duration, place: Place, random: Random) -> u64 {
        for _ in 0..self.plan.processes {
            let member = self.start();
            self.members.push(member);
        }
        let is_over = AtomicBool::new(false);
        let Place { mut trouble, .. } = place;
        thread::scope(|scope| {
            let hurting = scope.spawn(|| hurt(&mut trouble, random, &is_over));
            let end = Instant::now() + span;
            while Instant::now() < end {
                self.disturb();
                thread::sleep(TICK);
            }
            is_over.store(true, Ordering::Relaxed);
            let troubles = hurting.join().unwrap();
            self.rest();
            troubles
        })
    }

    fn start(&mut self) -> Member {
        self.started += 1;
        let (number, seed) = (self.started.to_string(), self.random.seed().to_string());
        let arguments = [self.topology.name(), &self.url, &self.directory, &number, &seed];
        Member { process: Worker::start(&arguments), until: None }
    }

    /// Lets those go on whose time has come; stops or kills somebody now and then.
    fn disturb(&mut self) {
        let now = Instant::now();
        for member in &mut self.members {
            if member.until.take_if(|until| *until <= now).is_some() {
                member.process.cont();
            }
        }
        let chosen = self.random.below(self.members.len());
        let longest_stop = self.plan.longest_ttl() * 3;
        // On average a quarter of it, and one process in five is stopped.
        let ticks = 5 * longest_stop.as_millis() / 4 / TICK.as_millis();
        let stopping = 1_000 * self.members.len() / ticks as usize;
        match self.random.below(1_000) {
            choice if choice < stopping && self.members[chosen].until.is_none() => {
                self.stops += 1;
                let span = self.random.up_to(longest_stop);
                let span = self.random.up_to(span);
                self.members[chosen].process.stop();
                self.members[chosen].until = Some(now + span);
            }
            985.. if self.members.len() > 1 => {
                self.kills += 1;
                self.members[chosen].process.kill9();
                self.members[chosen] = self.start();
            }
            _ => {}
        }
    }

    /// Nobody is hurt any more: everybody is served, and then nothing is left behind.
    fn rest(&mut self) {
        for member in &mut self.members {
            if member.until.take().is_some() {
                member.process.cont();
            }
            member.process.tell("stop");
        }
        for member in &mut self.members {
            let said = member.process.hear().unwrap_or_default();
            let served = said.strip_prefix("served ").and_then(|count| count.parse().ok());
            assert!(served > Some(0_u64), "a process was not served: {said:?}");
        }
        for mut member in self.members.drain(..) {
            member.process.tell("rest");
            member.process.expect("at rest");
            member.process.finish();
        }
    }
}

/// Hurts a place again and again; gives how often.
fn hurt(trouble: &mut Trouble, mut random: Random, is_over: &AtomicBool) -> u64 {
    let mut count = 0;
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(random.up_to(PAUSE * 2));
        trouble(&mut random);
        count += 1;
    }
    count
}
