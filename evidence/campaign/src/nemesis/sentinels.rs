//! Faults of the network between sentinels, and between them and the servers. Clients reach all of
//! them, and replicas reach their primary.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{SentinelFleet, must};

use super::replication::{keep_off, let_back};
use super::takeover::settle;
use crate::place::{Place, Servers};
use crate::random::Random;

const SENTINELS: usize = 3;

/// The sentinels that do not see the primary: all, or two of the three, which can replace it.
const UNSEEING: [&[usize]; 4] = [&[0, 1, 2], &[0, 1], &[1, 2], &[0, 2]];

/// Twice the time after which a sentinel takes a silent server for dead.
const TAKEN_FOR_DEAD: Duration = Duration::from_secs(1);

/// Hides the primary from sentinels until they have replaced it, and a while longer: it still
/// serves the clients that reach it. Then they find it again, and it becomes a replica.
pub(super) fn hide_primary(place: &mut Place, random: &mut Random) {
    let span = random.up_to(place.hang.1);
    let Some((fleet, primary)) = watched(place) else { return };
    must(fleet.hide(primary, random.one_of(&UNSEEING)));
    must(fleet.wait_for_another_primary(primary));
    thread::sleep(span);
    must(fleet.show(primary));
    settle(fleet);
}

/// Hides the primary from one sentinel, long enough for it to take the primary for dead.
pub(super) fn hide_primary_from_one(place: &mut Place, random: &mut Random) {
    let span = TAKEN_FOR_DEAD + random.up_to(place.hang.1);
    let Some((fleet, primary)) = watched(place) else { return };
    must(fleet.hide(primary, &[random.below(SENTINELS)]));
    thread::sleep(span);
    must(fleet.show(primary));
    must(fleet.wait_acquainted());
}

/// Hides all replicas from the sentinels, long enough for them to take those for dead.
pub(super) fn hide_replicas(place: &mut Place, random: &mut Random) {
    let span = TAKEN_FOR_DEAD + random.up_to(place.hang.1);
    let Some((fleet, primary)) = watched(place) else { return };
    let from = random.one_of(&UNSEEING);
    let all = 0..fleet.servers().servers().len();
    all.filter(|at| *at != primary).for_each(|at| must(fleet.hide(at, from)));
    thread::sleep(span);
    must(fleet.rejoin());
    settle(fleet);
}

/// Parts the primary and one sentinel from the others until these have replaced the primary, and a
/// while longer. Clients learn of one of the two primaries. Half of the times, replicas are on the
/// other side from the beginning. Otherwise they move when they learn of the new primary.
pub(super) fn part(place: &mut Place, random: &mut Random) {
    let (span, sentinel) = (random.up_to(place.hang.1), random.below(SENTINELS));
    let has_replicas = random.chance(50);
    let Some((fleet, primary)) = watched(place) else { return };
    if !has_replicas {
        keep_off(&fleet.servers()[primary]);
    }
    must(fleet.part(primary, sentinel));
    thread::sleep(span);
    let_back(&fleet.servers()[primary]);
    must(fleet.rejoin());
    settle(fleet);
}

/// Parts all sentinels from each other and from the primary, long enough for each to take all of
/// these for dead. No sentinel has a majority that agrees.
pub(super) fn scatter(place: &mut Place, random: &mut Random) {
    let span = TAKEN_FOR_DEAD + random.up_to(place.hang.1);
    let Some((fleet, primary)) = watched(place) else { return };
    must(fleet.scatter());
    must(fleet.hide(primary, UNSEEING[0]));
    thread::sleep(span);
    must(fleet.show(primary));
    must(fleet.wait_primary_seen());
    must(fleet.rejoin());
    settle(fleet);
}

/// The fleet, and its primary, if all agree on one.
fn watched(place: &Place) -> Option<(&SentinelFleet, usize)> {
    let Servers::Watched(fleet) = &place.servers else { panic!("no sentinels") };
    Some((fleet, fleet.primary()?))
}
