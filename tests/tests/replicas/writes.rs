//! Replicas acknowledge writes. If a reply grants something and nothing was written before it, WAIT
//! counts it as acknowledged immediately.

use std::time::Duration;

use leasehold::LockName;
use leasehold::lease::Mode;
use leasehold::store::{Redis, Store};
use leasehold_core::{
    Acquire, Action, Adopt, ClientId, HolderId, HolderInfo, Operation, Reclaim, Reply,
};
use leasehold_testkit::{RedisServer, Replicated, must, options_of};

use super::TTL;

/// Less than is left of a lease: no end moves.
const LESS: Duration = Duration::from_secs(1);

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn read(client: u128, ttl: Duration) -> Acquire {
    Acquire::new(id(client), Mode::Shared, ttl)
}

/// How many bytes of writes the primary has sent to its replicas.
fn sent(server: &RedisServer) -> u64 {
    let info = must(server.info("replication"));
    let offset = info.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
    must(must(offset.ok_or("no offset")).trim().parse())
}

#[tokio::test]
async fn d16_what_grants_is_sent_to_the_replicas_even_if_it_changes_nothing() {
    // Pings are sent in the same way as writes.
    let options = RedisServer::options().line("repl-ping-replica-period 3600");
    let servers = must(Replicated::start_with(options, &[100]));
    let store = must(Redis::open(options_of(&servers[0].url())).await);
    let name = must(LockName::new("a"));
    let grant = async |action: &Action| {
        let operation = Operation::On { name: name.clone(), action: action.clone() };
        match must(store.execute(operation).await).reply {
            Reply::Granted(grant) => grant.token,
            other => panic!("{action:?}: {other:?}"),
        }
    };
    // One holder alone would have the shortest kind of record.
    grant(&Action::Acquire(read(2, TTL))).await;
    let token = grant(&Action::Acquire(read(1, TTL))).await;
    for action in [
        Action::Acquire(read(1, LESS)),
        Action::Poll { id: id(1), ttl: LESS },
        Action::Renew { id: id(1), ttl: LESS },
        Action::Commit { id: id(1), token, ttl: LESS },
        Action::Reclaim(Reclaim::new(token, read(1, LESS))),
        Action::Describe { id: id(1), info: HolderInfo::new("another", 1) },
        Action::Adopt(Adopt::new(id(1), None, read(3, LESS))),
    ] {
        // The first time, some of them do change something.
        for time in 1..=2 {
            let before = sent(&servers[0]);
            grant(&action).await;
            assert!(sent(&servers[0]) > before, "time {time}: {action:?}");
        }
    }
}
