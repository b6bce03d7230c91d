//! A lock that is shared with Redisson: how often a mixed fleet enters, compared with fleets of one
//! kind. Without the program in Java, which `cargo xtask test` builds, there is no comparison.

use std::process::Command;
use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::{RedisServer, Worker, worker};

use crate::measure::number;
use crate::outcome::Outcome;
use crate::table::Table;

/// The hidden task of this program: to enter and leave on command.
pub(crate) const PEER: &str = "redisson-peer";

const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mixed/redisson");
const NAME: &str = "bench";

/// How many processes a fleet has.
const PROCESSES: usize = 8;

/// How long each fleet enters and leaves.
const TURN: Duration = Duration::from_secs(5);

/// How often the fleets take turns, so that a slow moment of the machine hits them all.
const ROUNDS: usize = 3;

/// Prints a table.
pub(crate) async fn run() -> Outcome {
    let server = RedisServer::options().line("save \"\"").start()?;
    println!("{}", fleets(&server)?);
    Ok(())
}

fn url(server: &RedisServer) -> String {
    format!("redis://127.0.0.1:{}?layout=redisson&timeout=10s", server.port())
}

fn jvm(server: &RedisServer) -> Worker {
    let mut command = Command::new("java");
    command.args(["-Xmx128m", "-XX:+UseSerialGC"]);
    command.args(["-cp", &format!("{BUILT}/classes:{BUILT}/lib/*"), "Peer"]);
    command.args([&format!("one,{}", server.port()), NAME, "30000"]);
    Worker::of(command)
}

fn ours(server: &RedisServer) -> Outcome<Worker> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([PEER, &url(server)]);
    Ok(Worker::of(command))
}

/// The work of one of our processes: `enter SECONDS`, as in the program in Java.
pub(crate) async fn peer(url: &str) -> Outcome {
    let client = Client::connect(url).await?;
    let lock = client.mutex(NAME);
    worker::say("ready");
    loop {
        let line = tokio::task::spawn_blocking(worker::listen).await?;
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["enter", seconds] => {
                let until = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
                let mut entries = 0_u64;
                while Instant::now() < until {
                    lock.acquire().await?.release().await?;
                    entries += 1;
                }
                worker::say(&entries.to_string());
            }
            _ => return Err(line.into()),
        }
    }
}

/// Starts a number of our processes, and the rest of the fleet as JVMs.
fn fleet(server: &RedisServer, of_ours: usize) -> Outcome<Vec<Worker>> {
    let mut fleet = Vec::new();
    for index in 0..PROCESSES {
        let mut worker = if index < of_ours { ours(server)? } else { jvm(server) };
        worker.expect("ready");
        fleet.push(worker);
    }
    Ok(fleet)
}

fn fleets(server: &RedisServer) -> Outcome<Table> {
    let title = "Redisson: entries of a fleet of 8 processes that want one lock";
    let titles = "fleet | entries/s | of them ours | of them Java's | least share of one of ours | \
         of one JVM";
    let titles: Vec<&str> = titles.split(" | ").collect();
    let mut table = Table::new(title, &titles);
    for (name, of_ours) in [("8 of ours", 8), ("4 of ours, 4 JVMs", 4), ("8 JVMs", 0)] {
        let mut fleet = fleet(server, of_ours)?;
        let mut entries = [0_u64; PROCESSES];
        for round in 0..=ROUNDS {
            fleet.iter_mut().for_each(|worker| worker.tell(&format!("enter {}", TURN.as_secs())));
            for (index, worker) in fleet.iter_mut().enumerate() {
                let counted: u64 = heard(worker)?;
                // One turn to warm up, not counted.
                entries[index] += if round > 0 { counted } else { 0 };
            }
        }
        let seconds = TURN.as_secs_f64() * ROUNDS as f64;
        let rate = |entries: &[u64]| number(entries.iter().sum::<u64>() as f64 / seconds);
        let equal = entries.iter().sum::<u64>() as f64 / PROCESSES as f64;
        // How often the slowest of them enters, as a fraction of an equal share.
        let least = |entries: &[u64]| match entries.iter().min() {
            Some(least) => number(*least as f64 / equal),
            None => "–".to_owned(),
        };
        let (ours, java) = entries.split_at(of_ours);
        let cells = [rate(&entries), rate(ours), rate(java), least(ours), least(java)];
        let [all, ours, java, least_ours, least_java] = cells;
        table.row([name.to_owned(), all, ours, java, least_ours, least_java]);
    }
    Ok(table)
}

fn heard<T: std::str::FromStr>(worker: &mut Worker) -> Outcome<T> {
    let said = worker.hear().ok_or("a process has ended")?;
    said.parse().map_err(|_| said.into())
}
