//! Replicas acknowledge writes. If a reply grants something and nothing was written before it, WAIT
//! counts it as acknowledged immediately.

use std::time::Duration;

use leasehold::LockName;
use leasehold::lease::Mode;
use leasehold::store::{Redis, Store};
use leasehold_core::{
    Action, ClientId, Description, HolderId, HolderInfo, Keep, Operation, Reply, Request, Take,
};
use leasehold_testkit::{RedisServer, Replicated, must, options_of};

use super::TTL;

/// Less than is left of a lease: no end moves.
const LESS: Duration = Duration::from_secs(1);

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn take(client: u128, mode: Mode, ttl: Duration) -> Take {
    Take::new(Request::new(id(client), mode, HolderInfo::default()), ttl)
}

/// How many bytes of writes the primary has sent to its replicas.
fn sent(server: &RedisServer) -> u64 {
    must(server.number("replication", "master_repl_offset:"))
}

#[tokio::test]
async fn d16_what_grants_is_sent_to_the_replicas_even_if_it_changes_nothing() {
    // Pings are sent in the same way as writes.
    let options = RedisServer::options().line("repl-ping-replica-period 3600");
    let servers = must(Replicated::start_with(options, &[100]));
    let store = must(Redis::open(options_of(&servers[0].url())).await);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let name = must(LockName::new(format!("a/{}", mode.as_str())));
        let ask = async |action: &Action| {
            let operation = Operation::On { name: name.clone(), action: action.clone() };
            must(store.execute(operation).await).reply
        };
        let first = take(1, mode, TTL);
        let Reply::Granted(grant) = ask(&Action::Take(first.clone())).await else { panic!() };
        let keep = Keep::new(first.request.clone(), LESS);
        let described = Description::new(grant.token, HolderInfo::new("another", 1));
        for action in [
            Action::Take(take(1, mode, LESS)),
            Action::Keep(keep.clone()),
            Action::Keep(keep.with_description(Some(Box::new(described)))),
            Action::Take(take(3, mode, LESS).with_from(Some(id(1)))),
        ] {
            // The first time, some of them do change something.
            for time in 1..=2 {
                let before = sent(&servers[0]);
                let reply = ask(&action).await;
                let is_grant = matches!(reply, Reply::Granted(_) | Reply::Kept { .. });
                assert!(is_grant, "{action:?}: {reply:?}");
                assert!(sent(&servers[0]) > before, "time {time}: {action:?}");
            }
        }
    }
}
