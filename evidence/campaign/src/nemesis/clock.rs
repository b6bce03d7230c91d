//! Faults of the wall clock of a server.

use std::thread;

use leasehold_testkit::must;

use crate::place::Place;
use crate::random::Random;

/// The longest step of a clock, in seconds: a few leases.
const STEP_S: f64 = 1.5;

/// How far a clock may be from the machine's in the end, in seconds.
const FURTHEST_S: f64 = 20.0;

/// Half of the drift that clients assume by default, 1 %.
const RATE: f64 = 0.005;

/// Sets the clock back, until the sum of all steps would be too large.
pub(super) fn set_back(place: &mut Place, random: &mut Random) {
    step(place, random, -1.0);
}

pub(super) fn set_forward(place: &mut Place, random: &mut Random) {
    step(place, random, 1.0);
}

fn step(place: &mut Place, random: &mut Random, sign: f64) {
    let step = STEP_S * random.below(1_000) as f64 / 1_000.0;
    if place.ahead_s.abs() + step <= FURTHEST_S {
        place.ahead_s += sign * step;
    }
    let ahead_s = place.ahead_s;
    for server in place.victims(random) {
        must(server.set_clock(ahead_s, 1.0));
    }
}

/// Lets the clock run fast or slow for a while.
pub(super) fn change_rate(place: &mut Place, random: &mut Random) {
    let (ahead_s, span) = (place.ahead_s, random.up_to(place.hang.1));
    let rate = if random.chance(50) { 1.0 + RATE } else { 1.0 - RATE };
    for server in place.all() {
        must(server.set_clock(ahead_s, rate));
    }
    thread::sleep(span);
    // The clock keeps its gain: setting a clock back is another fault.
    place.ahead_s += span.as_secs_f64() * (rate - 1.0);
    let ahead_s = place.ahead_s;
    for server in place.all() {
        must(server.set_clock(ahead_s, 1.0));
    }
}
