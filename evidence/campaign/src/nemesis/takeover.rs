//! A replica takes over from the primary, as sentinels find.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{Data, must};

use crate::place::{Place, Servers};
use crate::random::Random;

/// Which sentinels do not see the primary: all, or two of the three, who are enough to replace it.
const UNSEEING: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[1, 2], &[0, 2]];

/// Twice as long as a sentinel waits for an answer before it takes a server for dead.
const TAKEN_FOR_DEAD: Duration = Duration::from_secs(1);

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

/// Keeps sentinels from the primary until they have replaced it, and for a while more: it goes on
/// serving the clients that reach it. Then they find it again, and it becomes a replica.
pub(super) fn hide_primary(place: &mut Place, random: &mut Random) {
    let span = random.up_to(place.hang.1);
    let Servers::Watched(fleet) = &place.servers else { panic!("no sentinels") };
    let Some(primary) = fleet.primary() else { return };
    must(fleet.hide(primary, random.one_of(&UNSEEING)));
    must(fleet.wait_for_another_primary(primary));
    thread::sleep(span);
    must(fleet.show(primary));
    must(fleet.servers().wait_in_sync());
    must(fleet.wait_acquainted());
}

/// Keeps one sentinel from the primary, long enough for it to take it for dead.
pub(super) fn hide_primary_from_one(place: &mut Place, random: &mut Random) {
    let span = TAKEN_FOR_DEAD + random.up_to(place.hang.1);
    let Servers::Watched(fleet) = &place.servers else { panic!("no sentinels") };
    let Some(primary) = fleet.primary() else { return };
    must(fleet.hide(primary, &[random.below(fleet.sentinels().len())]));
    thread::sleep(span);
    must(fleet.show(primary));
    must(fleet.wait_acquainted());
}
