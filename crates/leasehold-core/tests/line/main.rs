//! Two lines at one lock: clients that pass a lease from caller to caller, and take turns.
//!
//! Each line does what a client's does: its first caller asks the store, and one that gives up
//! leaves the attempt to the next. A lease goes from one caller to the next for one slice, and then
//! the line yields: a release, and an acquire with a new attempt, sent together and executed in
//! either order. The store is [`leasehold_core::model::step`] itself, behind a network that delays
//! and reorders requests and loses messages and answers. Each protection is then taken away, and
//! the search must find what goes wrong.

mod scenario;
#[path = "../search/mod.rs"]
mod search;
mod state;
mod world;

use self::scenario::{Protection, World};
use self::search::{breaks, holds_in};
use self::world::{ENDED_STAYS_ENDED, ONE_HOLDER, SERVED, TOKENS_GROW};

/// Searches for the first violation without a protection.
fn fails_without(protection: Protection, world: World, property: &'static str) {
    let world = World { without: Some(protection), ..world };
    breaks(&world, property);
}

#[test]
fn two_lines_take_turns_alone_and_every_caller_is_served() {
    holds_in(&World::calm());
}

#[test]
fn a_caller_that_gives_up_leaves_its_place_to_the_next_and_nothing_behind() {
    holds_in(&World { drops: 1, visits: [[1, 1], [1, 0]], ..World::calm() });
}

#[test]
fn an_answer_that_is_lost_costs_no_caller_its_turn() {
    holds_in(&World { losses: 1, visits: [[1, 1], [1, 0]], ..World::calm() });
}

#[test]
fn a_lease_that_is_lost_in_any_hands_is_held_by_nobody_when_the_other_line_has_its_own() {
    holds_in(&World { stops: 1, ..World::short() });
}

#[test]
fn without_separate_tokens_two_callers_of_a_line_have_the_same() {
    fails_without(Protection::Tokens, World::calm(), TOKENS_GROW);
}

#[test]
fn without_the_end_of_the_lease_a_caller_holds_beside_the_other_line() {
    fails_without(Protection::Validity, World { stops: 1, ..World::short() }, ONE_HOLDER);
}

#[test]
fn without_the_release_of_what_it_had_a_line_waits_for_itself() {
    fails_without(Protection::Release, World::alone(), SERVED);
}

#[test]
fn without_a_new_attempt_a_yield_is_answered_with_the_grant_that_it_ends() {
    fails_without(Protection::NewAttempt, World::alone(), TOKENS_GROW);
}

#[test]
fn without_taking_over_a_caller_behind_one_that_gives_up_waits_for_ever() {
    fails_without(Protection::TakeOver, World { drops: 1, ..World::calm() }, SERVED);
}

#[test]
fn without_the_cancel_of_an_empty_line_its_attempt_stays() {
    fails_without(Protection::Cancel, World { drops: 1, ..World::calm() }, ENDED_STAYS_ENDED);
}
