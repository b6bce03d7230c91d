//! Many real processes wait through the library, on the file store and on a real server, and some
//! of them are killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold::{Client, FencingToken};
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

    /// A server, on which a dead holder is noticed by the end of its lease.
    fn redis() -> Self {
        let server = must(RedisServer::start());
        let directory = must(tempfile::tempdir());
        Self { url: server.patient_url(), ttl: SHORT, _server: Some(server), directory }
    }

    fn start(&self, number: usize) -> Worker {
        let path = self.directory.path().display().to_string();
        let (ttl_ms, number) = (self.ttl.as_millis().to_string(), number.to_string());
        Worker::start(&["contention", &self.url, &path, &ttl_ms, &number])
    }

    fn connect(&self) -> (Runtime, Client) {
        let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
        let client = must(runtime.block_on(Client::connect(&self.url)));
        (runtime, client)
    }

    /// The workers that entered, in order.
    fn entered(&self) -> Vec<usize> {
        let text = fs::read_to_string(self.directory.path().join("entered")).unwrap_or_default();
        text.lines().map(|line| must(line.parse())).collect()
    }
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

/// Enters once, reports that, and leaves when told to.
async fn enter_once(url: &str, directory: &Path, ttl: Duration, number: &str) {
    let client = must(Client::connect(url).await);
    worker::say("ready");
    worker::listen();
    let guard = must(client.mutex(NAME).ttl(ttl).acquire().await);
    add_one(directory, guard.token());
    let entered = directory.join("entered");
    let before = fs::read_to_string(&entered).unwrap_or_default();
    must(fs::write(&entered, format!("{before}{number}\n")));
    worker::say("entered");
    worker::listen();
    must(guard.release().await);
    must(client.close().await);
}

/// The job of the tests below, for separate processes.
pub(super) fn job(arguments: &[&str]) {
    let [url, directory, ttl_ms, number] = *arguments else { panic!("{arguments:?}") };
    let runtime = must(Builder::new_multi_thread().worker_threads(2).enable_all().build());
    let ttl = Duration::from_millis(must(ttl_ms.parse()));
    runtime.block_on(enter_once(url, Path::new(directory), ttl, number));
}

/// Kills half of the waiters; the others enter in the order in which they came.
fn the_others_are_served_in_order(place: &Place) {
    const WAITERS: usize = 40;
    let is_killed = |number: &usize| number % 2 == 1;
    let mut holder = place.start(0);
    holder.expect("ready");
    holder.ask("go", "entered");
    let mut waiting = Vec::new();
    let (runtime, client) = place.connect();
    for number in 1..=WAITERS {
        let mut waiter = place.start(number);
        waiter.expect("ready");
        waiter.tell("go");
        // It leaves as soon as it has entered.
        waiter.tell("leave");
        waiting.push(waiter);
        runtime.block_on(queued(&client, NAME, number as u32));
    }
    for number in (1..=WAITERS).filter(is_killed) {
        waiting[number - 1].kill9();
    }
    holder.kill9();
    let alive = (1..).zip(waiting).filter(|(number, _)| !is_killed(number));
    alive.for_each(|(_, waiter)| waiter.finish());
    let alive: Vec<_> = (0..=WAITERS).filter(|number| !is_killed(number)).collect();
    assert_eq!(place.entered(), alive);
    drop(client);
}

mod file {
    use super::*;

    #[test]
    fn when_half_of_forty_waiters_are_killed_the_others_enter_in_order() {
        the_others_are_served_in_order(&Place::file());
    }
}

mod redis {
    use super::*;

    #[test]
    fn when_half_of_forty_waiters_are_killed_the_others_enter_in_order() {
        the_others_are_served_in_order(&Place::redis());
    }
}
