//! What befalls the links between servers.

use std::thread;
use std::time::Duration;

use leasehold_testkit::RedisServer;

use crate::place::{Place, Servers, command};
use crate::random::Random;

/// What a replica asks its primary for. One whose PSYNC is refused asks by SYNC, as of old, and who
/// is answered by that acknowledges nothing from then on: so SYNC stays refused.
const ALLOWED: &str = "ACL SETUSER default +psync";
const REFUSED: &str = "ACL SETUSER default -psync -sync";

/// The bus of a cluster is cut for less than this.
const BUS_CUT: Duration = Duration::from_secs(2);

/// Cuts the replicas of a primary off, and keeps them off for a while: each is sent away and finds
/// no way back. Both sides go on serving whoever reaches them.
pub(super) fn cut(place: &mut Place, random: &mut Random) {
    let span = place.hang.0 + random.up_to(place.hang.1);
    let primaries: Vec<&RedisServer> = match &place.servers {
        Servers::Cluster(_) => place.victims(random),
        _ => {
            let is_primary = |server: &&RedisServer| server.role().as_deref() == Some("master");
            place.all().into_iter().filter(is_primary).collect()
        }
    };
    for server in &primaries {
        // One that is replaced right now has no replicas.
        drop(server.command::<()>(REFUSED));
        drop(server.command::<u32>("CLIENT KILL TYPE replica"));
    }
    thread::sleep(span);
    for server in &primaries {
        command(server, ALLOWED);
    }
}

/// Cuts the bus between a primary of a cluster and all other nodes for a while, which is shorter
/// than they take to find it dead.
pub(super) fn cut_bus(place: &mut Place, random: &mut Random) {
    let node = place.primary_of_a_name(random);
    let Servers::Cluster(cluster) = &mut place.servers else { panic!("no cluster") };
    cluster.cut_bus(node);
    thread::sleep(random.up_to(BUS_CUT));
    cluster.mend_bus();
}
