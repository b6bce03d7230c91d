//! The main job: one process at a time works. Many real processes try through the library, on the
//! file store and on a real server.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold::{Client, FencingToken, Guard, Lock};
use leasehold_testkit::harness::queued;
use leasehold_testkit::worker::{self, Worker};
use leasehold_testkit::{RedisServer, must};
use tokio::runtime::{Builder, Runtime};

/// Far longer than these tests take: no lease ends by time.
const LONG: Duration = Duration::from_secs(600);

/// For tests that wait for dead holders: short, but longer than any delay of a busy machine.
const SHORT: Duration = Duration::from_secs(15);

const NAME: &str = "the counter";

/// The place of the locks, and of the unprotected files that they protect.
struct Place {
    url: String,
    ttl: Duration,
    _server: Option<RedisServer>,
    directory: tempfile::TempDir,
}

impl Place {
    fn file() -> Self {
        let directory = must(tempfile::tempdir());
        let url = format!("file:{}", directory.path().join("locks.db").display());
        Self { url, ttl: LONG, _server: None, directory }
    }

    fn redis() -> Self {
        let server = must(RedisServer::start());
        let directory = must(tempfile::tempdir());
        Self { url: server.patient_url(), ttl: LONG, _server: Some(server), directory }
    }

    /// A server, on which a dead holder is noticed by the end of its lease.
    fn redis_with_the_dead() -> Self {
        Self { ttl: SHORT, ..Self::redis() }
    }

    fn start(&self, job: &str, rest: &[&str]) -> Worker {
        let path = self.directory.path().display().to_string();
        let ttl_ms = self.ttl.as_millis().to_string();
        Worker::start(&[&["contention", job, &self.url, &path, &ttl_ms], rest].concat())
    }

    fn connect(&self) -> (Runtime, Client) {
        let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
        let client = must(runtime.block_on(Client::connect(&self.url)));
        (runtime, client)
    }

    fn count(&self) -> u64 {
        read(self.directory.path()).0
    }

    /// The workers that entered, in order.
    fn entered(&self) -> Vec<usize> {
        let text = fs::read_to_string(self.directory.path().join("entered")).unwrap_or_default();
        text.lines().map(|line| must(line.parse())).collect()
    }
}

/// The facts that a worker needs.
struct Job<'a> {
    url: &'a str,
    directory: &'a Path,
    ttl: Duration,
}

/// Reads, adds and writes, without any protection.
fn add_one(directory: &Path, token: FencingToken) {
    let (count, newest) = read(directory);
    assert!(newest < token.get(), "{newest} was before {token}");
    must(fs::write(directory.join("count"), format!("{} {token}", count + 1)));
}

fn read(directory: &Path) -> (u64, u64) {
    let text = fs::read_to_string(directory.join("count")).unwrap_or("0 0".into());
    let numbers = text
        .split_once(' ')
        .and_then(|(count, token)| Some((count.parse().ok()?, token.parse().ok()?)));
    must(numbers.ok_or("two were writing"))
}

/// Acquires, and works under the validity that it has. Right after a hand-over, that is two
/// seconds. A worker that a busy machine delayed for longer asks again.
async fn acquire(lock: &Lock) -> Guard {
    loop {
        match lock.acquire().await {
            Ok(guard) if guard.is_held() => return guard,
            Ok(too_late) => drop(too_late),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

async fn add_from_tasks(job: Job<'_>, tasks: u32, rounds: u32) {
    let client = must(Client::connect(job.url).await);
    let tasks = (0..tasks).map(|_| {
        let (lock, directory) = (client.mutex(NAME).ttl(job.ttl), job.directory.to_owned());
        tokio::spawn(async move {
            for _ in 0..rounds {
                let guard = acquire(&lock).await;
                add_one(&directory, guard.token());
                must(guard.release().await);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        must(task.await);
    }
    must(client.close().await);
}

/// Enters once, reports that, and leaves when told to.
async fn enter_once(job: Job<'_>, number: &str) {
    let client = must(Client::connect(job.url).await);
    worker::say("ready");
    worker::listen();
    let guard = must(client.mutex(NAME).ttl(job.ttl).acquire().await);
    add_one(job.directory, guard.token());
    let entered = job.directory.join("entered");
    let before = fs::read_to_string(&entered).unwrap_or_default();
    must(fs::write(&entered, format!("{before}{number}\n")));
    worker::say("entered");
    worker::listen();
    must(guard.release().await);
    must(client.close().await);
}

/// The jobs of the tests below, each for a separate process.
pub(super) fn job(arguments: &[&str]) {
    let [job, url, directory, ttl_ms, ref rest @ ..] = *arguments else { panic!("{arguments:?}") };
    let runtime = must(Builder::new_multi_thread().worker_threads(2).enable_all().build());
    let ttl = Duration::from_millis(must(ttl_ms.parse()));
    let what = Job { url, directory: Path::new(directory), ttl };
    let number = |index: usize| must(rest[index].parse());
    match job {
        "tasks" => runtime.block_on(add_from_tasks(what, number(0), number(1))),
        "enter once" => runtime.block_on(enter_once(what, rest[0])),
        other => panic!("no such job: {other:?}"),
    }
}

/// Lets processes add to a number, and checks that no addition is missing.
fn no_update_is_lost(place: &Place, processes: u64, job: &str, width: u64, rounds: u64) {
    let arguments = [width.to_string(), rounds.to_string()];
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let workers: Vec<_> = (0..processes).map(|_| place.start(job, &arguments)).collect();
    workers.into_iter().for_each(Worker::finish);
    assert_eq!(place.count(), processes * width * rounds);
}

/// Kills some waiters; the others enter in the order in which they came.
fn the_others_are_served_in_order(place: &Place, waiters: usize, is_killed: fn(usize) -> bool) {
    let mut holder = place.start("enter once", &["0"]);
    holder.expect("ready");
    holder.tell("go");
    holder.expect("entered");
    let mut waiting = Vec::new();
    let (runtime, client) = place.connect();
    for number in 1..=waiters {
        let mut waiter = place.start("enter once", &[&number.to_string()]);
        waiter.expect("ready");
        waiter.tell("go");
        // It leaves as soon as it has entered.
        waiter.tell("leave");
        waiting.push(waiter);
        runtime.block_on(queued(&client, NAME, number as u32));
    }
    for number in (1..=waiters).filter(|number| is_killed(*number)) {
        waiting[number - 1].kill9();
    }
    holder.kill9();
    for (number, waiter) in (1..).zip(waiting) {
        if !is_killed(number) {
            waiter.finish();
        }
    }
    let alive: Vec<_> = (0..=waiters).filter(|number| !is_killed(*number)).collect();
    assert_eq!(place.entered(), alive);
    drop(client);
}

mod file {
    use super::*;

    #[test]
    fn thirty_two_processes_lose_no_update() {
        no_update_is_lost(&Place::file(), 32, "tasks", 1, 50);
    }

    #[test]
    fn two_hundred_tasks_in_four_processes_lose_no_update() {
        no_update_is_lost(&Place::file(), 4, "tasks", 50, 5);
    }

    #[test]
    fn when_the_holder_is_killed_ten_waiters_enter_in_order() {
        the_others_are_served_in_order(&Place::file(), 10, |_| false);
    }

    #[test]
    fn when_half_of_forty_waiters_are_killed_the_others_enter_in_order() {
        the_others_are_served_in_order(&Place::file(), 40, |number| number % 2 == 1);
    }
}

mod redis {
    use super::*;

    #[test]
    fn thirty_two_processes_lose_no_update() {
        no_update_is_lost(&Place::redis(), 32, "tasks", 1, 50);
    }

    #[test]
    fn two_hundred_tasks_in_four_processes_lose_no_update() {
        no_update_is_lost(&Place::redis(), 4, "tasks", 50, 5);
    }

    #[test]
    fn when_the_holder_is_killed_ten_waiters_enter_in_order() {
        the_others_are_served_in_order(&Place::redis_with_the_dead(), 10, |_| false);
    }

    #[test]
    fn when_half_of_forty_waiters_are_killed_the_others_enter_in_order() {
        let place = Place::redis_with_the_dead();
        the_others_are_served_in_order(&place, 40, |number| number % 2 == 1);
    }
}
