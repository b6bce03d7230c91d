//! Processes that are killed while they hold or wait, on each kind of store. Promises to dead
//! holders are kept, nobody waits for longer than these last, and the living keep their order.

use std::time::Duration;

use leasehold::Client;
use leasehold::time::{Clock, SystemClock};
use leasehold_testkit::harness::{queued, soon};
use leasehold_testkit::worker::{self, Worker};
use leasehold_testkit::{Cluster, RedisServer, SentinelFleet, must, three_nodes};
use tokio::runtime::{Builder, Runtime};

/// Short, because the test waits for the end of the dead holder's lease; long enough to ask a
/// quorum in time on a busy machine.
const TTL: Duration = Duration::from_secs(6);

const NAME: &str = "deadly";

fn now_ns() -> u128 {
    SystemClock::new().now().since_origin().as_nanos()
}

fn runtime() -> Runtime {
    must(Builder::new_multi_thread().worker_threads(1).enable_all().build())
}

/// A process of the tests below: it acquires, prints until when it holds, and waits.
pub(super) fn job(url: &str) {
    runtime().block_on(async {
        let client = must(Client::connect(url).await);
        worker::say("asks");
        let guard = must(client.mutex(NAME).ttl(TTL).acquire().await);
        let entered = now_ns();
        let until = entered + guard.validity().as_nanos();
        worker::say(&format!("{entered} {until} {}", guard.token()));
        worker::listen();
        must(guard.release().await);
        must(client.close().await);
    });
}

/// The line of a holding process: since when and until when it holds at least, and the token.
fn hear(process: &mut Worker) -> [u128; 3] {
    let said = process.hear().unwrap();
    let numbers: Vec<u128> = said.split(' ').map(|number| must(number.parse())).collect();
    must(numbers.try_into())
}

/// Starts a process that has asked for the lock when this returns.
fn start(url: &str) -> Worker {
    let mut process = Worker::start(&["deaths", url]);
    process.expect("asks");
    process
}

/// Kills a holder, and every other one of its waiters, beginning with the first. The others hold in
/// the order in which they came. If the dead holder was promised a time, none of them holds before
/// that is over. `wait` waits until it sees this many waiters.
fn kill_half(url: &str, waiters: u32, is_promised: bool, wait: fn(&str, u32)) {
    let mut holder = start(url);
    let [_, until, mut token] = hear(&mut holder);
    let mut waiting = Vec::new();
    for number in 1..=waiters {
        let mut waiter = start(url);
        waiter.tell("leave");
        waiting.push(waiter);
        wait(url, number);
    }
    holder.kill9();
    waiting.iter_mut().step_by(2).for_each(Worker::kill9);
    for mut waiter in waiting.into_iter().skip(1).step_by(2) {
        let [entered, _, later] = hear(&mut waiter);
        let is_early = is_promised && entered < until;
        assert!(!is_early, "{entered} is before {until}: it was promised to the dead");
        assert!(later > token, "{later} was granted after {token}");
        token = later;
        waiter.finish();
    }
}

fn wait_for_queue(url: &str, many: u32) {
    runtime().block_on(async {
        let client = must(Client::connect(url).await);
        queued(&client, NAME, many).await;
        must(soon(client.close()).await);
    });
}

macro_rules! on_each {
    ($($store:ident => $deaths:block)*) => {$(
        mod $store {
            use super::*;

            #[test]
            fn who_is_killed_keeps_what_it_was_promised_and_then_the_living_are_served() $deaths
        }
    )*};
}

on_each! {
    file => {
        let directory = must(tempfile::tempdir());
        let url = format!("file:{}", directory.path().join("locks.db").display());
        // It is noticed at once that a process of the same machine has died.
        kill_half(&url, 40, false, wait_for_queue);
    }
    server => {
        let server = must(RedisServer::start());
        kill_half(&server.patient_url(), 40, true, wait_for_queue);
    }
    sentinel => {
        let fleet = must(SentinelFleet::start());
        kill_half(&fleet.url(), 2, true, wait_for_queue);
    }
    cluster => {
        let cluster = must(Cluster::start(0));
        kill_half(&cluster.url(), 2, true, wait_for_queue);
    }
    quorum => {
        let (_nodes, url) = three_nodes("quarantine=off");
        // There is no queue to look at: waiters ask again and again.
        kill_half(&url, 2, true, |_, _| ());
    }
}
