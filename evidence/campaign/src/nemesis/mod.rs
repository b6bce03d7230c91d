//! The nemesis: the faults of the place where the locks live, one after the other, drawn from the
//! seed of the run. When a function returns, its fault is over and healed.

mod clock;
mod cluster;
mod data;
mod network;
mod postgres;
mod process;
mod replication;
mod rights;
mod sentinels;
mod takeover;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testkit::{Data, must};

use crate::fault::Fault;
use crate::place::{Place, Servers};
use crate::promise::now_ns;
use crate::random::Random;

/// The pause after a fault is less than twice this: time to recover, and to be hurt again before
/// everything has recovered.
const PAUSE: Duration = Duration::from_millis(200);

/// Causes a fault of the place, and heals it.
fn befall(fault: Fault, place: &mut Place, random: &mut Random) {
    if let Servers::Postgres(server, pooler) = &mut place.servers {
        let span = random.up_to(place.hang.1);
        return postgres::befall(fault, (server, pooler.as_mut()), span);
    }
    if let Servers::PostgresPair(pair) = &mut place.servers {
        let span = random.up_to(place.hang.1);
        return postgres::befall_pair(fault, pair, span);
    }
    match fault {
        Fault::AclTaken => rights::take_away(place, random),
        Fault::BusCut => cluster::cut_bus(place, random),
        Fault::ClockBack => clock::set_back(place, random),
        Fault::ClockForward => clock::set_forward(place, random),
        Fault::ClockRate => clock::change_rate(place, random),
        Fault::ConnectionsCut => network::cut(place, "CLIENT KILL TYPE normal SKIPME yes"),
        Fault::Delay => network::delay(place, random),
        Fault::Duplicate => network::double(place, random),
        Fault::Eviction => data::evict(place, random),
        Fault::Failover => takeover::fail_over(place),
        Fault::Flush => data::flush(place, random),
        Fault::FullMemory => data::fill(place, random),
        Fault::Hang => process::hang(place, random),
        Fault::Kill => process::restart(place, random, Data::Kept),
        Fault::KillPrimary => match place.servers {
            Servers::Cluster(_) => cluster::kill_primary(place, random),
            _ => takeover::kill_primary(place),
        },
        Fault::Late => network::hold_back(place, random),
        Fault::LinkCut => replication::cut(place, random),
        Fault::LostReply => network::lose_reply(place, random),
        Fault::PartitionToServer => network::deafen(place, random),
        Fault::PartitionToClients => network::mute(place, random),
        Fault::Partition => network::swallow(place, random),
        Fault::PowerLoss => process::lose_power(place, random),
        Fault::PrimaryUnseen => sentinels::hide_primary(place, random),
        Fault::PrimaryUnseenByOne => sentinels::hide_primary_from_one(place, random),
        Fault::ReplicasUnseen => sentinels::hide_replicas(place, random),
        Fault::RestartEmpty => match place.servers {
            Servers::Cluster(_) => cluster::restart_empty(place, random),
            _ => process::restart(place, random, Data::Dropped),
        },
        Fault::ScriptFlush => data::flush_scripts(place, random),
        Fault::SentinelParted => sentinels::part(place, random),
        Fault::SentinelsScattered => sentinels::scatter(place, random),
        Fault::SlotMove => cluster::move_slot(place, random),
        Fault::SubscribersCut => network::cut(place, "CLIENT KILL TYPE pubsub"),
        Fault::TakeOver => cluster::take_over(place, random),
    }
}

/// Hurts a place again and again until the round is over, and records the times.
pub(crate) fn hurt(place: &mut Place, mut random: Random, directory: &Path, is_over: &AtomicBool) {
    let mut text = String::new();
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(random.up_to(PAUSE * 2));
        if place.faults.is_empty() {
            continue;
        }
        let fault = random.one_of(place.faults);
        let begun = now_ns();
        befall(fault, place, &mut random);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "f {begun} {} {fault:?}", now_ns());
        if fault.forgets() && !place.quarantine.is_zero() {
            let until = Instant::now() + place.quarantine + random.up_to(place.quarantine);
            while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
                thread::sleep(PAUSE);
            }
        }
    }
    place.heal();
    must(fs::write(directory.join("nemesis.log"), text));
}
