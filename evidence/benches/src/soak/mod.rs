//! Hours of acquiring, in which nothing may grow: processes whose tasks come and go, on thousands
//! of names. Sometimes a process is killed and started again, or all connections are cut. Samples
//! of the clients' memory, descriptors, threads and tasks, and of the server's memory, connections
//! and keys, must be flat in the second half. In the end no key may be left.

mod peer;
mod trend;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold_core::backoff::Jitter;
use leasehold_core::model::Times;
use leasehold_testkit::outage::Usage;
use leasehold_testkit::{RedisServer, Worker};
use serde::{Deserialize, Serialize};

pub(crate) use self::trend::Trend;
use crate::outcome::Outcome;
use crate::table::Table;

/// The hidden task of this program: to acquire.
pub(crate) const PEER: &str = "soak-peer";

/// The number of processes that live throughout, and the number of names.
const PROCESSES: usize = 2;
const NAMES: u64 = 4_000;

/// The number of samples, with at least a second between two of them.
const SAMPLES: u32 = 240;

/// A process is killed, and connections are cut, after this many samples.
const DISTURB_EVERY: usize = 5;

/// How long keys may stay after the last acquire: 2 min. An attempt that has ended is remembered
/// for a minute because of late copies, after the lease of a process that was killed.
const FORGOTTEN: Duration = Duration::from_millis(2 * Times::USUAL.closed_ms);

/// The end of the key from which tokens are drawn, which stays.
const COUNTER: &str = "%token";

/// The measures, and by how much each may rise in the second half: by a share of its mean, or by an
/// amount. Keys are those of recently used names: at most as many as there are names, and as the
/// machine has time for.
const MEASURES: [(&str, f64, f64); 8] = [
    ("client memory, MiB", 0.05, 2.0),
    ("client descriptors", 0.0, 4.0),
    ("client threads", 0.0, 2.0),
    ("client tasks", 0.1, 16.0),
    ("server memory, MiB", 0.05, 1.0),
    ("server connections", 0.0, 4.0),
    ("server descriptors", 0.0, 4.0),
    ("keys", 0.0, NAMES as f64),
];

/// The result of a soak, in the form of the file for reports.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Soak {
    pub(crate) seconds: f64,
    pub(crate) acquisitions: u64,
    pub(crate) names: u64,
    pub(crate) processes_killed: u64,
    pub(crate) connections_cut: u64,
    /// Keys that were left when all had to be forgotten, but for the counter of tokens; old runs
    /// did not check that.
    pub(crate) keys_left: Option<u64>,
    /// Seconds since the beginning, and a value for each measure.
    pub(crate) samples: Vec<(f64, Vec<f64>)>,
    pub(crate) trends: BTreeMap<String, Trend>,
}

/// Runs for the given time, writes the result into the directory, and fails unless all measures are
/// flat.
pub(crate) fn run(minutes: &str, directory: &Path) -> Outcome {
    let span = Duration::from_secs_f64(minutes.parse::<f64>()? * 60.0);
    let server = RedisServer::start()?;
    let url = server.url();
    let mut random = Jitter::new(span.as_secs());
    let mut start = || peer_process(&url, random.next_u64());
    let mut steady = Vec::new();
    for _ in 0..PROCESSES {
        steady.push(start()?);
    }
    let mut churned = start()?;
    let mut soak = Soak {
        seconds: 0.0,
        acquisitions: 0,
        names: NAMES,
        processes_killed: 0,
        connections_cut: 0,
        keys_left: None,
        samples: Vec::new(),
        trends: BTreeMap::new(),
    };
    let (began, every) = (Instant::now(), (span / SAMPLES).max(Duration::from_secs(1)));
    while began.elapsed() < span {
        sleep(every);
        let (values, acquired) = sample(&server, &mut steady)?;
        soak.acquisitions = acquired;
        soak.samples.push((began.elapsed().as_secs_f64(), values));
        if soak.samples.len().is_multiple_of(DISTURB_EVERY) {
            churned.kill9();
            churned = start()?;
            soak.processes_killed += 1;
            soak.connections_cut += server.command::<u64>("CLIENT KILL TYPE normal SKIPME yes")?;
        }
    }
    soak.seconds = began.elapsed().as_secs_f64();
    drop((churned, steady));
    soak.keys_left = Some(what_remains(&server)?);
    soak.judge(directory)
}

/// Waits for the time when all keys must be forgotten, and returns how many are left.
fn what_remains(server: &RedisServer) -> Outcome<u64> {
    let since = Instant::now();
    loop {
        let mut keys = server.command::<Vec<String>>("KEYS *")?;
        keys.retain(|key| !key.ends_with(COUNTER));
        let keys = keys.len() as u64;
        if keys == 0 || since.elapsed() >= FORGOTTEN {
            return Ok(keys);
        }
        sleep(Duration::from_secs(1));
    }
}

fn peer_process(url: &str, seed: u64) -> Outcome<Worker> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PEER, url, &seed.to_string()]);
    Ok(Worker::of(command))
}

/// The work of one of the processes.
pub(crate) async fn peer(url: &str, seed: &str) -> Outcome {
    peer::run(url, NAMES, seed.parse()?).await
}

/// The measures, in the order of [`MEASURES`], and how often all have acquired so far.
fn sample(server: &RedisServer, steady: &mut [Worker]) -> Outcome<(Vec<f64>, u64)> {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let (mut memory, mut descriptors, mut threads, mut tasks) = (0.0, 0.0, 0.0, 0.0);
    let mut acquired = 0;
    for worker in steady {
        let pid = worker.pid();
        memory += mib(Usage::of(pid)?.memory as f64);
        descriptors += entries(&format!("/proc/{pid}/fd"))?;
        threads += entries(&format!("/proc/{pid}/task"))?;
        worker.tell("sample");
        let answer = worker.hear().ok_or("a process has ended")?;
        let (count, alive) = answer.split_once(' ').ok_or("no answer")?;
        acquired += count.parse::<u64>()?;
        tasks += alive.parse::<f64>()?;
    }
    let info = server.info("everything")?;
    let field = |name: &str| -> Outcome<f64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or("no such line in INFO")?.trim().parse()?)
    };
    let values = vec![
        memory,
        descriptors,
        threads,
        tasks,
        mib(field("used_memory")?),
        field("connected_clients")?,
        entries(&format!("/proc/{}/fd", server.pid()))?,
        server.command::<f64>("DBSIZE")?,
    ];
    Ok((values, acquired))
}

fn entries(directory: &str) -> Outcome<f64> {
    Ok(fs::read_dir(directory)?.count() as f64)
}

impl Soak {
    /// Prints and writes the result; fails if a measure was not flat.
    fn judge(mut self, directory: &Path) -> Outcome {
        for (at, (name, share, by)) in MEASURES.into_iter().enumerate() {
            let of: Vec<_> = self.samples.iter().map(|(time, all)| (*time, all[at])).collect();
            self.trends.insert(name.to_owned(), Trend::of(&of, share, by));
        }
        println!("{}", self.table());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        fs::create_dir_all(directory)?;
        let file = directory.join(format!("soak-{now}.json"));
        fs::write(file, serde_json::to_string(&self)?)?;
        let is_growing = |(_, trend): &(&String, &Trend)| !trend.is_flat();
        match (self.trends.iter().find(is_growing), self.keys_left) {
            (Some((name, trend)), _) => Err(format!("{name} goes on growing: {trend:?}").into()),
            (None, Some(keys @ 1..)) => Err(format!("{keys} keys are left for good").into()),
            (None, Some(0) | None) => Ok(()),
        }
    }

    /// The measures, and the rise of a line through the second half of each.
    pub(crate) fn table(&self) -> Table {
        let left = self.keys_left.map_or_else(String::new, |keys| format!(", {keys} keys left"));
        let title = format!(
            "Soak: {} acquisitions of {} names in {:.0} s; {} processes killed, {} connections \
             cut{left}",
            self.acquisitions,
            self.names,
            self.seconds,
            self.processes_killed,
            self.connections_cut
        );
        let heads = ["", "mean of the second half", "rises by", "may rise by", "flat"];
        let mut table = Table::new(&title, &heads);
        for (name, trend) in &self.trends {
            table.row([
                name.clone(),
                format!("{:.1}", trend.mean),
                format!("{:.2}", trend.rise),
                format!("{:.2}", trend.most),
                if trend.is_flat() { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table
    }
}
