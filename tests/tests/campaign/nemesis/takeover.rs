//! Another server takes over a key.

use leasehold_testkit::{Data, must};

use crate::place::{Place, Servers};
use crate::plan::Plan;
use crate::random::Random;

/// Has the sentinels promote a replica.
pub(super) fn fail_over(place: &mut Place) {
    let Servers::Watched(fleet) = &place.servers else { panic!("no sentinels") };
    must(fleet.fail_over());
    must(fleet.servers().wait_in_sync());
    must(fleet.wait_acquainted());
}

/// Kills the primary; it comes back as a replica once the sentinels have replaced it.
pub(super) fn kill_primary(place: &mut Place) {
    let Servers::Watched(fleet) = &mut place.servers else { panic!("no sentinels") };
    let Some(primary) = fleet.primary() else { return };
    must(fleet.servers_mut()[primary].kill9());
    must(fleet.wait_for_another_primary(primary));
    must(fleet.servers_mut()[primary].restart(Data::Dropped));
    must(fleet.servers().wait_in_sync());
    must(fleet.wait_acquainted());
}

/// Moves the slot of a name to another node.
pub(super) fn move_slot(place: &mut Place, random: &mut Random) {
    let names = place.plan.names;
    let Servers::Cluster(cluster) = &place.servers else { panic!("no cluster") };
    let mut slot = || must(cluster.slot_of(&format!("lh:{}", Plan::name(random.below(names)))));
    let (from, to) = (slot(), slot());
    let (owner, to) = (must(cluster.owner(from)), must(cluster.owner(to)));
    if to != owner {
        must(cluster.move_slot(from, to));
    }
}
