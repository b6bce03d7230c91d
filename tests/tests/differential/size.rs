//! How much of a server's memory a name takes.

use std::time::Duration;

use leasehold_core::{Acquire, Action, ClientId, HolderId, HolderInfo, Mode, Reply};
use leasehold_testkit::RedisServer;

use super::history::START_US;
use super::server::Server;

const TTL: Duration = Duration::from_secs(30);

/// A hash with a table takes more than twice the memory, and never goes back.
#[test]
fn a_name_for_which_nobody_has_waited_is_kept_without_a_table() {
    let mut server = Server::start(RedisServer::options());
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Permits { count: 2, capacity: 9 }] {
        server.forget();
        for round in 1..4 {
            let id = HolderId { client: ClientId(round), attempt: 1 };
            let info = HolderInfo::new("checkout-service-7d9c5b8f6d-x2x9k", u32::MAX)
                .with_label(Some(format!("order {round}")));
            let acquire = Action::Acquire(Acquire::new(id, mode, TTL).with_info(info));
            let renew = Action::Renew { id, ttl: TTL };
            let release = Action::Release { id, cooldown: Duration::ZERO, unanswered: false };
            for (action, at_us) in [(acquire, 0), (renew, 1_000_000), (release, 2_000_000)] {
                let reply = server
                    .act(&action, START_US + u64::try_from(round).unwrap() * 10_000_000 + at_us);
                assert!(matches!(reply, Ok(Reply::Granted(_) | Reply::Released)), "{reply:?}");
                let mut encoding = redis::cmd("OBJECT");
                encoding.arg("ENCODING").arg(server.key(0));
                let encoding: String = encoding.query(&mut server.connection).unwrap();
                assert_eq!(encoding, "listpack", "{mode:?} {action:?}");
            }
        }
    }
}
