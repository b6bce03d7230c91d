//! What befalls the links between servers.

use std::thread;

use leasehold_testkit::RedisServer;

use crate::place::{Place, Servers, command};
use crate::random::Random;

/// What a replica asks its primary for. One whose PSYNC is refused asks by SYNC, as of old, and who
/// is answered by that acknowledges nothing from then on: so SYNC stays refused.
const ALLOWED: &str = "ACL SETUSER default +psync";
const REFUSED: &str = "ACL SETUSER default -psync -sync";

/// Cuts the replicas of a primary off, and keeps them off for a while: each is sent away and finds
/// no way back. Both sides go on serving the clients that reach them.
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

/// Sends the replicas of a server away.
pub(super) fn keep_off(server: &RedisServer) {
    // One that is replaced right now has no replicas.
    drop(server.command::<()>(REFUSED));
    drop(server.command::<u32>("CLIENT KILL TYPE replica"));
}

/// Lets them find their way back.
pub(super) fn let_back(server: &RedisServer) {
    command(server, ALLOWED);
}
