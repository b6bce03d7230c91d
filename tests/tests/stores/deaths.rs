//! Processes that are killed while they hold or wait, where several servers make up the store.
//! Promises to dead holders are kept, and nobody waits for longer than these last.

use std::time::Duration;

use leasehold::Client;
use leasehold::time::{Clock, SystemClock};
use leasehold_testkit::harness::{queued, soon};
use leasehold_testkit::worker::{self, Worker};
use leasehold_testkit::{Cluster, RedisServer, SentinelFleet, must};
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

/// Kills a holder, and the first of two waiters. `wait` waits until it sees this many waiters.
fn kill_who_holds_and_who_is_next(url: &str, wait: fn(&str, u32)) {
    let mut holder = start(url);
    let [_, until, token] = hear(&mut holder);
    let mut next = start(url);
    wait(url, 1);
    let mut last = start(url);
    wait(url, 2);
    holder.kill9();
    next.kill9();
    let [entered, _, later] = hear(&mut last);
    assert!(entered >= until, "{entered} is before {until}: it was promised to the dead");
    assert!(later > token, "{later} was granted after {token}");
    last.tell("leave");
    last.finish();
}

fn wait_for_queue(url: &str, many: u32) {
    runtime().block_on(async {
        let client = must(Client::connect(url).await);
        queued(&client, NAME, many).await;
        must(soon(client.close()).await);
    });
}

mod sentinel {
    use super::*;

    #[test]
    fn who_is_killed_keeps_what_it_was_promised_and_then_the_living_are_served() {
        let fleet = must(SentinelFleet::start());
        kill_who_holds_and_who_is_next(&fleet.url(), wait_for_queue);
    }
}

mod cluster {
    use super::*;

    #[test]
    fn who_is_killed_keeps_what_it_was_promised_and_then_the_living_are_served() {
        let cluster = must(Cluster::start(0));
        kill_who_holds_and_who_is_next(&cluster.url(), wait_for_queue);
    }
}

mod quorum {
    use super::*;

    #[test]
    fn who_is_killed_keeps_what_it_was_promised_and_then_the_living_are_served() {
        let nodes: Vec<_> = (0..3).map(|_| must(RedisServer::start())).collect();
        let hosts: Vec<_> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        let url = format!("redis+quorum://{}?quarantine=off", hosts.join(","));
        // There is no queue to look at: waiters ask again and again.
        kill_who_holds_and_who_is_next(&url, |_, _| ());
    }
}
