//! Faults of the network between clients and a server.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{Fault, Proxy};

use crate::place::Place;
use crate::random::Random;

/// The longest delay: half of it is more than the shortest lease takes to be renewed.
const LATEST: Duration = Duration::from_millis(80);

/// How long the nemesis waits for a single request or reply to strike.
const STRUCK_WITHIN: Duration = Duration::from_millis(300);

/// Cuts connections of all servers, by a command.
pub(super) fn cut(place: &mut Place, command: &str) {
    for server in place.all() {
        // A server that is being replaced has none.
        drop(server.command::<u32>(command));
    }
}

/// Lets everything arrive late for a while.
pub(super) fn delay(place: &mut Place, random: &mut Random) {
    let late = random.up_to(LATEST);
    for_a_while(place, random, |proxy, on| proxy.delay(if on { late } else { Duration::ZERO }));
}

/// Holds back the bytes of clients.
pub(super) fn deafen(place: &mut Place, random: &mut Random) {
    for_a_while(place, random, Proxy::deafen);
}

/// Holds back the bytes of servers.
pub(super) fn mute(place: &mut Place, random: &mut Random) {
    for_a_while(place, random, Proxy::mute);
}

/// Holds back everything.
pub(super) fn swallow(place: &mut Place, random: &mut Random) {
    for_a_while(place, random, Proxy::swallow);
}

/// Makes requests of each kind arrive twice.
pub(super) fn double(place: &mut Place, random: &mut Random) {
    strike(place, random, Fault::RepeatRequest);
}

/// Loses replies of each kind.
pub(super) fn lose_reply(place: &mut Place, random: &mut Random) {
    strike(place, random, Fault::LoseReply);
}

/// Keeps requests of each kind, and delivers them later than newer requests.
pub(super) fn hold_back(place: &mut Place, random: &mut Random) {
    strike(place, random, Fault::HoldRequest);
    thread::sleep(random.up_to(place.hang.1));
    for proxy in place.linked(random) {
        // A server that is being replaced accepts none.
        drop(proxy.deliver());
    }
}

/// Half of the times, all connections are cut before the end, so that bytes that were held back
/// never arrive.
fn for_a_while(place: &mut Place, random: &mut Random, change: impl Fn(&Proxy, bool)) {
    let span = place.hang.0 + random.up_to(place.hang.1);
    let cut = random.chance(50);
    let linked = place.linked(random);
    linked.iter().for_each(|proxy| change(proxy, true));
    thread::sleep(span);
    for proxy in linked {
        if cut {
            proxy.cut();
        }
        change(proxy, false);
    }
}

fn strike(place: &mut Place, random: &mut Random, fault: Fault) {
    for call in place.calls {
        let nth = 1 + random.below(20) as u32;
        for proxy in place.linked(random).into_iter().take(1) {
            // The nemesis does not wait: a call of this kind may come much later.
            drop(proxy.strike(nth, *call, fault));
        }
    }
    thread::sleep(random.up_to(STRUCK_WITHIN));
}
