//! The hand-off of one lock, in every order in which its steps can happen.
//!
//! Small worlds are searched exhaustively: a holder and two waiters whose transitions are
//! [`leasehold_core::model::step`] itself, a network that loses, delays, reorders and duplicates,
//! clients that stop (some for ever) and change their minds. Each protection of the protocol is
//! then taken away, and the search must find what goes wrong: otherwise it would prove nothing.
//! Capacities have a separate world.

mod capacities;
mod scenario;
#[path = "../search/mod.rs"]
mod search;
mod state;
mod world;

use self::scenario::{Protection, World};
use self::search::{breaks, holds_in};
use self::world::{BOUNDED_WAIT, ENDED_STAYS_ENDED, ONE_HOLDER};

/// Searches for the first violation without a protection.
fn fails_without(protection: Protection, world: World, property: &'static str) {
    let world = World { without: Some(protection), ..world };
    breaks(&world, property);
}

#[test]
fn waiters_are_served_in_order_and_in_bounded_time_though_one_dies_and_replies_are_lost() {
    holds_in(&World { stops: 1, losses: 1, ..World::calm() });
}

#[test]
fn waiters_that_change_their_mind_leave_nothing_behind_though_copies_come_late() {
    holds_in(&World { cancels: 1, losses: 1, copies: 1, ..World::calm() });
}

#[test]
fn a_waiter_that_dies_beside_one_that_changes_its_mind_delays_nobody_for_longer() {
    holds_in(&World { stops: 1, cancels: 1, ..World::calm() });
}

#[test]
fn nobody_believes_that_it_holds_when_it_has_stopped_for_longer_than_its_lease() {
    let short = World { ttl: 3, end: 8, patience: 7, ..World::calm() };
    holds_in(&World { stops: 1, losses: 1, holders_stop: true, ..short });
}

#[test]
fn without_polls_a_waiter_whose_message_is_lost_waits_for_ever() {
    fails_without(Protection::Poll, World::calm(), BOUNDED_WAIT);
}

#[test]
fn without_the_claim_window_a_dead_waiter_costs_a_whole_lease() {
    fails_without(Protection::ClaimWindow, World { stops: 1, ..World::calm() }, BOUNDED_WAIT);
}

#[test]
fn without_tombstones_a_late_copy_is_granted_to_an_attempt_that_has_ended() {
    let world = World { cancels: 1, copies: 1, ..World::calm() };
    fails_without(Protection::Tombstone, world, ENDED_STAYS_ENDED);
}

#[test]
fn without_the_check_of_messages_a_late_one_makes_two_holders() {
    fails_without(Protection::Validity, World { stops: 1, ..World::calm() }, ONE_HOLDER);
}
