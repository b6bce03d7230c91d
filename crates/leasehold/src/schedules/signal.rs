//! The loss signal: threads wait for it, end it, and move its end.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Clock as _, FakeClock, LossReason};
use shuttle::future::block_on;
use shuttle::thread;

use super::world::explore;
use crate::lost::{End, Lost, Signal};

const LEASE: Duration = Duration::from_secs(10);

fn held() -> (FakeClock, Arc<Signal>) {
    let clock = FakeClock::new();
    let until = clock.now() + LEASE;
    (clock.clone(), Arc::new(Signal::new(Arc::new(clock), until)))
}

#[test]
fn a_waiter_for_the_end_is_woken_whenever_that_comes() {
    explore(|| {
        let (_clock, signal) = held();
        let waits = [(); 2].map(|()| {
            let lost = Lost::new([Arc::clone(&signal) as _]);
            thread::spawn(move || block_on(lost))
        });
        signal.end(LossReason::Revoked);
        for waits in waits {
            assert_eq!(waits.join().unwrap(), Some(LossReason::Revoked));
        }
    });
}

#[test]
fn of_two_ends_one_is_the_first_and_all_are_given_that_one() {
    explore(|| {
        let (clock, signal) = held();
        let ends = [End::Lost(LossReason::Revoked), End::Released];
        let ending = ends.map(|end| {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.end(end))
        });
        clock.advance(LEASE);
        let seen = signal.check();
        assert!(seen.is_some(), "it is over at the latest");
        for end in ending {
            assert_eq!(Some(end.join().unwrap()), seen);
        }
        assert_eq!(signal.check(), seen);
        assert_eq!(block_on(Lost::new([Arc::clone(&signal) as _])), seen.and_then(End::loss));
    });
}

#[test]
fn what_was_seen_to_be_over_is_not_prolonged_by_an_answer_of_the_same_moment() {
    explore(|| {
        let (clock, signal) = held();
        let extends = {
            let (clock, signal) = (clock.clone(), Arc::clone(&signal));
            thread::spawn(move || {
                let now = clock.now();
                signal.extend(now, now + LEASE * 2);
            })
        };
        let checks = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.check())
        };
        clock.advance(LEASE);
        let seen = checks.join().unwrap().or_else(|| signal.check());
        extends.join().unwrap();
        assert_eq!(signal.check(), seen);
    });
}

#[test]
fn a_limit_holds_whatever_prolongs_the_lease_in_the_same_moment() {
    explore(|| {
        let (clock, signal) = held();
        let now = clock.now();
        let extends = {
            let signal = Arc::clone(&signal);
            thread::spawn(move || signal.extend(now, now + LEASE * 2))
        };
        signal.deliver(now, Some(LEASE / 2));
        assert_eq!(signal.valid_until(), now + LEASE / 2);
        extends.join().unwrap();
        assert_eq!(signal.valid_until(), now + LEASE / 2);
    });
}
