//! The classic Redlock on three servers: our quorum with the layout `plain`, beside rslock and
//! node-redlock on the same three.
//!
//! node-redlock keeps the grants of a minority until their ttl is over, and its own retries fail on
//! them. So two of its processes can keep each other out. Therefore it does not take part if many
//! processes race.

use leasehold::Client;
use leasehold_testkit::harness::{until, until_so};
use leasehold_testkit::{RedisServer, Worker, must};

use super::contender::{Kind, url};
use super::{COUNTER, NAME, ROUNDS};

/// Processes of each kind: fewer than on one server, because each round asks three.
const PROCESSES: usize = 4;

struct Three {
    servers: Vec<RedisServer>,
    ports: Vec<u16>,
}

impl Three {
    fn start() -> Self {
        let servers: Vec<_> = (0..3).map(|_| must(RedisServer::start())).collect();
        let ports = servers.iter().map(RedisServer::port).collect();
        Self { servers, ports }
    }

    fn added(&self) -> usize {
        must(self.servers[0].command::<Option<usize>>(&format!("GET {COUNTER}"))).unwrap_or(0)
    }

    fn values(&self) -> Vec<Option<Vec<u8>>> {
        let get = |server: &RedisServer| {
            must(redis::cmd("GET").arg(NAME).query(&mut must(server.connection())))
        };
        self.servers.iter().map(get).collect()
    }

    /// How often each server was asked for a lock, by any command.
    fn asked(&self) -> Vec<u64> {
        let asked = |server: &RedisServer| {
            let calls = |command| must(server.command_stats(command)).0;
            ["set", "eval", "evalsha"].into_iter().map(calls).sum()
        };
        self.servers.iter().map(asked).collect()
    }
}

#[test]
fn no_update_is_lost_between_the_redlocks_of_two_libraries_though_a_server_dies() {
    let mut three = Three::start();
    let kinds = [[Kind::Ours; PROCESSES], [Kind::Rslock; PROCESSES]].concat();
    let mut workers: Vec<Worker> =
        kinds.into_iter().filter_map(|kind| kind.start(&three.ports, NAME)).collect();
    for worker in &mut workers {
        worker.tell(&format!("add {COUNTER} {ROUNDS}"));
    }
    // The processes must be at work; the counter is on the first server.
    until_so("they are at it", || three.added() >= ROUNDS);
    must(three.servers[2].kill9());
    for worker in &mut workers {
        worker.expect("added");
    }
    assert_eq!(three.added(), workers.len() * ROUNDS);
}

#[tokio::test]
async fn a_majority_of_theirs_keeps_us_out_and_ours_keeps_them_out() {
    for kind in [Kind::NodeRedlock, Kind::Redsync, Kind::Rslock] {
        let three = Three::start();
        let Some(mut theirs) = kind.start(&three.ports, NAME) else { continue };
        let client = must(Client::connect(&url(&three.ports)).await);
        theirs.ask("acquire 60000", "acquired");
        let before = three.values();
        assert!(must(client.mutex(NAME).try_acquire().await).is_none(), "{kind:?}");
        // They report the lock once a majority has it; the third server may have it a moment later.
        for (before, after) in before.iter().zip(three.values()) {
            let is_left_alone = before.is_none() || after == *before;
            assert!(is_left_alone, "{kind:?}: what is theirs is left alone");
        }
        theirs.ask("release", "released");
        let guard = must(client.mutex(NAME).acquire().await);
        let asked = three.asked();
        theirs.tell("acquire 1000");
        let have_asked_twice = |(now, before): (u64, &u64)| now > before + 1;
        until("a majority has refused them twice", async || {
            three.asked().into_iter().zip(&asked).filter(|pair| have_asked_twice(*pair)).count() > 1
        })
        .await;
        let ours = three.values().into_iter().flatten();
        let ours = ours.filter(|value| value.starts_with(b"leasehold-1 ")).count();
        assert!(ours >= 2, "{kind:?}: what is ours is left alone");
        must(guard.release().await);
        theirs.expect("acquired");
    }
}
