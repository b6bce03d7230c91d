//! Faults of the data of a server.

use std::thread;
use std::time::Duration;

use crate::place::{Place, command};
use crate::random::Random;

/// A server is short of memory for less than this.
const SHORT: Duration = Duration::from_millis(300);

/// Forgets everything.
pub(super) fn flush(place: &mut Place, random: &mut Random) {
    place.victims(random).iter().for_each(|server| command(server, "FLUSHALL"));
}

pub(super) fn flush_scripts(place: &mut Place, random: &mut Random) {
    place.victims(random).iter().for_each(|server| command(server, "SCRIPT FLUSH"));
}

/// Refuses whatever adds to the data, for a while.
pub(super) fn fill(place: &mut Place, random: &mut Random) {
    limit(place, random, "noeviction");
}

pub(super) fn evict(place: &mut Place, random: &mut Random) {
    limit(place, random, "allkeys-random");
}

fn limit(place: &mut Place, random: &mut Random, policy: &str) {
    let span = random.up_to(SHORT);
    let victims = place.victims(random);
    for server in &victims {
        command(server, &format!("CONFIG SET maxmemory-policy {policy}"));
        command(server, "CONFIG SET maxmemory 1");
    }
    thread::sleep(span);
    for server in &victims {
        command(server, "CONFIG SET maxmemory 0");
        command(server, "CONFIG SET maxmemory-policy noeviction");
    }
}
