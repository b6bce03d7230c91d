//! Runs a topology in rounds. Processes take turns at the locks of a place, and are stopped and
//! killed while the nemesis hurts the place. After each round, everybody must be served, nothing
//! may be left behind, and the records are judged.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_core::model::Times;
use leasehold_testkit::{RedisServer, must};

use crate::crew::Crew;
use crate::fleet::Peer;
use crate::judge::{OF_EXCLUSION, Outcome, Verdict};
use crate::place::Place;
use crate::plan::PREFIX;
use crate::promise::Log;
use crate::random::Random;
use crate::settings::Settings;
use crate::topology::{Promised, Topology};

/// The length of a round; its records are judged immediately, and then deleted.
const ROUND: Duration = Duration::from_secs(20);

/// After a run of this length, the driver waits until nothing is left of its names.
const LONG: Duration = Duration::from_mins(10);

/// How long that may take: an attempt that has ended is remembered for a minute, after the lease of
/// a process that was killed.
const FORGOTTEN: Duration = Duration::from_millis(2 * Times::USUAL.closed_ms).saturating_add(PAUSE);

/// Counters of tokens that Redisson keeps for ever.
const COUNTERS: &str = "redisson_lock_token:";

/// How often servers are asked for what is left.
const PAUSE: Duration = Duration::from_secs(5);

/// The number of this process among those of a round.
const DRIVER: u64 = 0;

/// Runs on one topology, and stops the test if a promise was broken. Returns nothing if the place
/// cannot be had.
pub(crate) fn run(topology: Topology) -> Option<Outcome> {
    let settings = Settings::read();
    let directory = must(tempfile::Builder::new().prefix("leasehold-campaign-").tempdir());
    let Some(mut place) = Place::start(topology, directory.path()) else {
        assert!(std::env::var_os("CI").is_none(), "{}: not installed", topology.name());
        println!("left out: {}: its servers are not installed", topology.name());
        return None;
    };
    let protected = must(RedisServer::start());
    let mut random = Random::new(settings.seed);
    let peers = Peer::of(topology);
    let mut outcome = Outcome::new(&topology.name(), topology.promised(), settings.seed);
    outcome.server = version(&protected);
    let (began, mut highest) = (Instant::now(), HashMap::new());
    // Numbers go on from round to round: the protected values stay, and no value may come twice.
    let mut started = 0;
    while outcome.rounds == 0 || began.elapsed() < settings.span {
        let round = directory.path().join(format!("round-{}", outcome.rounds));
        must(std::fs::create_dir(&round));
        let mut crew = Crew {
            topology,
            peers: &peers,
            plan: place.plan,
            url: place.url.clone(),
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
        outcome.merge(&verdict.outcome);
        verdict.cases.retain(|(check, _)| is_wrong(topology, check));
        if !verdict.cases.is_empty() {
            fail(&settings, &mut outcome, &verdict, &round, began.elapsed());
        }
        must(std::fs::remove_dir_all(&round));
    }
    finish(&settings, &place, &mut outcome, began.elapsed());
    Some(outcome)
}

/// After all rounds, checks after a long run that nothing is left. Writes and prints the result.
fn finish(settings: &Settings, place: &Place, outcome: &mut Outcome, took: Duration) {
    let remains = if settings.span >= LONG { what_remains(place) } else { Vec::new() };
    if !remains.is_empty() {
        *outcome.violations.entry("I11".to_owned()).or_default() += 1;
    }
    if let Some(runs) = &settings.runs {
        outcome.write(runs, took);
    }
    outcome.seconds = took.as_secs_f64();
    println!("{}", outcome.line());
    assert!(remains.is_empty(), "I11: keys that nobody has used for {FORGOTTEN:?}: {remains:?}");
    println!("{}: {:?}", outcome.topology, outcome.events);
}

/// Waits until the keys of locks should have been forgotten, and returns those that are left.
fn what_remains(place: &Place) -> Vec<String> {
    let since = Instant::now();
    loop {
        let keys = |server: &&RedisServer| {
            let mut keys: Vec<String> =
                server.command(&format!("KEYS *{PREFIX}*")).unwrap_or_default();
            keys.retain(|key| !key.starts_with(COUNTERS));
            keys
        };
        let remains: Vec<_> = place.all().iter().flat_map(keys).collect();
        if remains.is_empty() || since.elapsed() >= FORGOTTEN {
            return remains;
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a finding of this check is a violation on this topology.
fn is_wrong(topology: Topology, check: &str) -> bool {
    match topology.promised() {
        Promised::Both => true,
        Promised::Order => !OF_EXCLUSION.contains(&check),
        Promised::Nothing => false,
    }
}

/// Prints the violations, where all records are, and how to try again.
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
        verdict.outcome.violations,
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
