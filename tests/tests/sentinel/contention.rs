//! Locks that change hands while a replica hangs, where grants wait for it.

use leasehold::LockName;
use leasehold_testkit::{Contenders, RedisServer, SentinelFleet, fresh_number, must};

use crate::{LONG, connect};

/// Three, so that behind a waiter that is handed a lock, there is another waiter.
const CLIENTS: usize = 3;

const NAMES: usize = 8;

/// How often each of the locks changes hands while a replica hangs.
const TIMES: u64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d18_a_replica_that_hangs_and_comes_back_lets_nobody_in_beside_a_holder() {
    let (servers, sentinels) = (RedisServer::options(), RedisServer::options());
    let fleet = must(SentinelFleet::start_with(servers, &[100, 100], sentinels));
    let url = format!("{}?replicas=2", fleet.url());
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&url).await);
    }
    let name = |number| must(LockName::new(format!("{number}/{:032x}", fresh_number())));
    let names: Vec<_> = (0..NAMES).map(name).collect();
    let contenders = Contenders::start(&clients, &names, LONG);
    contenders.change_hands_while_hanging(&[&fleet.servers()[2]], TIMES).await;
    assert!(contenders.stop().await >= NAMES * TIMES as usize);
}
