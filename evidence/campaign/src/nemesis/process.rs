//! Faults of the process of a server.

use std::thread;

use leasehold_testkit::{Data, must};

use crate::place::Place;
use crate::random::Random;

/// The most transactions that a power loss takes.
const LOST: usize = 40;

/// Stops servers for a while.
pub(super) fn hang(place: &mut Place, random: &mut Random) {
    let span = place.hang.0 + random.up_to(place.hang.1);
    let victims = place.victims(random);
    for server in &victims {
        must(server.stop());
    }
    thread::sleep(span);
    for server in &victims {
        must(server.cont());
    }
}

/// Kills servers, and starts them again after a while.
pub(super) fn restart(place: &mut Place, random: &mut Random, data: Data) {
    let span = random.up_to(place.hang.1);
    let mut victims = place.independent(random);
    victims.iter_mut().for_each(|server| must(server.kill9()));
    thread::sleep(span);
    victims.iter_mut().for_each(|server| must(server.restart(data)));
}

/// Ends a server as a power loss does: its last transactions are lost.
pub(super) fn lose_power(place: &mut Place, random: &mut Random) {
    let most = random.below(LOST);
    for server in place.independent(random) {
        // A new file may hold less than that.
        if server.lose_power(most).is_err() {
            must(server.restart(Data::Kept));
        }
    }
}
