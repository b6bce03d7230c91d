//! A replica takes over from the primary, as sentinels find.

use leasehold_testkit::{Data, SentinelFleet, must};

use crate::place::{Place, Servers};

/// Makes the sentinels promote a replica.
pub(super) fn fail_over(place: &mut Place) {
    let Servers::Watched(fleet) = &place.servers else { panic!("no sentinels") };
    must(fleet.fail_over());
    settle(fleet);
}

/// Kills the primary; it comes back as a replica once the sentinels have replaced it.
pub(super) fn kill_primary(place: &mut Place) {
    let Servers::Watched(fleet) = &mut place.servers else { panic!("no sentinels") };
    let Some(primary) = fleet.primary() else { return };
    must(fleet.servers_mut()[primary].kill9());
    must(fleet.wait_for_another_primary(primary));
    must(fleet.servers_mut()[primary].restart(Data::Dropped));
    settle(fleet);
}

/// Waits until all servers and sentinels know each other.
pub(super) fn settle(fleet: &SentinelFleet) {
    must(fleet.servers().wait_in_sync());
    must(fleet.wait_acquainted());
}
