//! Faults of the links between servers.

use std::thread;

use leasehold_testkit::RedisServer;

use crate::place::{Place, Servers, command};
use crate::random::Random;

/// The command of a replica. If PSYNC is refused, a replica uses the old SYNC, after which it never
/// acknowledges anything. So SYNC stays refused.
const ALLOWED: &str = "ACL SETUSER default +psync";
const REFUSED: &str = "ACL SETUSER default -psync -sync";

/// Cuts the replicas of a primary off, and keeps them off for a while: each is disconnected and
/// cannot connect again. Both sides still serve the clients that reach them.
pub(super) fn cut(place: &mut Place, random: &mut Random) {
    let span = place.hang.0 + random.up_to(place.hang.1);
    let primaries: Vec<&RedisServer> = match &place.servers {
        Servers::Cluster(_) => place.victims(random),
        _ => {
            let is_primary = |server: &&RedisServer| server.role().as_deref() == Some("master");
            place.all().into_iter().filter(is_primary).collect()
        }
    };
    primaries.iter().for_each(|server| keep_off(server));
    thread::sleep(span);
    primaries.iter().for_each(|server| let_back(server));
}

/// Disconnects the replicas of a server.
pub(super) fn keep_off(server: &RedisServer) {
    // A server that is being replaced has no replicas.
    drop(server.command::<()>(REFUSED));
    drop(server.command::<u32>("CLIENT KILL TYPE replica"));
}

/// Lets replicas connect again.
pub(super) fn let_back(server: &RedisServer) {
    command(server, ALLOWED);
}
