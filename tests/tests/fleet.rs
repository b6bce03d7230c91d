//! A small fleet on a simulated cluster: a server fails and its replica takes over, and a tenth of
//! the clients is killed and starts again. `cargo xtask bench fleet` plays the same with a hundred
//! thousand clients.

use std::time::Duration;

use leasehold_core::model::{CLAIM_WINDOW, POLL_INTERVAL};
use leasehold_testkit::fleet::{Failover, Plan, Report, Weather, play};
use leasehold_testkit::must;

const CLIENTS: u32 = 240;

const TTL: Duration = Duration::from_secs(9);

/// The commands that one client may send in the second after a replica has taken over, for each
/// name that it holds or awaits there: an acquire or a release that was not answered, a poll, a
/// renewal, and two more because messages may have been lost.
const COMMANDS_EACH: u32 = 5;

/// How often one client dials one address in a second at most.
const DIALS_EACH: u32 = 4;

/// The longest that a released lock may be idle. The next waiter may have been killed and not claim
/// it, and the waiter behind may just have polled.
const PATIENCE: Duration = CLAIM_WINDOW.saturating_add(POLL_INTERVAL);

fn played(weather: Weather) -> Report {
    let millis = Duration::from_millis;
    let report = must(play(Plan {
        clients: CLIENTS as usize,
        nodes: 12,
        names: 120,
        ttl: TTL,
        thinks: millis(8_000),
        holds: millis(400),
        holds_long: millis(8_000),
        calm: millis(10_000),
        outage: millis(6_000),
        after: millis(12_000),
        weather,
        seed: 7,
    }));
    println!("{:?}, {:?}", report.calm, report.failover);
    report
}

fn fine() -> Report {
    played(Weather { lost_requests: 0, lost_messages: 0, lag: Duration::ZERO })
}

#[test]
fn after_a_failover_that_forgets_nothing_all_are_served_alone_and_nobody_stampedes() {
    let report = fine();
    assert_eq!((report.unserved, report.errors), (0, 0));
    assert_eq!((report.double_holds, report.tokens_back), (0, 0));
    assert!(report.hand_over(1000) <= PATIENCE, "{:?}", report.hand_over(1000));
    let Failover { clients, commands_before, commands_after, dials, .. } = report.failover;
    assert!(clients > 5, "nobody used the server that failed");
    let most = commands_before + clients as u32 * COMMANDS_EACH;
    assert!(commands_after <= most, "{commands_after} commands of {clients} clients");
    assert!(dials <= CLIENTS * DIALS_EACH, "{dials} dials");
}

#[test]
fn what_a_fleet_asks_for_is_what_the_page_on_sizing_reckons() {
    let report = fine();
    let (counts, lasted) = report.calm;
    let seconds = lasted.as_secs_f64();
    let polls = report.waiters * seconds;
    assert!((0.6 * polls..1.2 * polls).contains(&(counts.polls as f64)), "{polls}: {counts:?}");
    // Each lease is renewed three times in its ttl, and each hand-over is confirmed.
    let renewals = report.holders * 3.0 / TTL.as_secs_f64() * seconds + counts.messages as f64;
    assert!(counts.leases as f64 <= 1.2 * renewals, "{renewals}: {counts:?}");
    assert!(counts.acquires.abs_diff(counts.releases) <= u64::from(CLIENTS) / 2, "{counts:?}");
    assert_eq!(report.bus_messages, counts.messages, "each is published once");
}

#[test]
fn whatever_a_replica_has_missed_tokens_grow_and_all_are_served() {
    let report = played(Weather {
        lost_requests: 2_000,
        lost_messages: 50_000,
        lag: Duration::from_millis(500),
    });
    assert_eq!((report.unserved, report.errors), (0, 0));
    assert_eq!(report.tokens_back, 0);
    // Only a lock of which the replica missed something may have two holders.
    assert!(report.double_holds <= report.failover.missed, "{report:?}");
}
