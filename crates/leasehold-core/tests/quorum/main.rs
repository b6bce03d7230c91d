//! A lock on three nodes, in every order in which its steps can happen.
//!
//! Small worlds are searched exhaustively: nodes whose transitions are
//! [`leasehold_core::model::step`] itself, clients that count with [`leasehold_core::quorum`]
//! itself, a network that loses, delays, reorders and repeats, nodes that forget. In *timeless*
//! worlds a lease can end at any moment, so the results there depend on no clock. In *timed* worlds
//! every clock is right, so that exclusion can be checked. Each protection of the protocol is then
//! taken away, and the search must find what goes wrong: otherwise it would prove nothing.

mod client;
mod scenario;
#[path = "../search/mod.rs"]
mod search;
mod state;
mod world;

use self::scenario::{Protection, World};
use self::search::{breaks, broken, holds_in};
use self::world::{ENDED_STAYS_ENDED, IN_ORDER, KEPT, ONE_HOLDER, PROVEN};

/// The variable that adds the worlds whose search takes minutes each.
const LARGE: &str = "LEASEHOLD_LARGE_WORLDS";

/// The same in a world that is too large for every run.
fn holds_in_large(world: &World) {
    if std::env::var_os(LARGE).is_some() {
        holds_in(world);
    }
}

fn without(protection: Protection, world: World) -> World {
    World { without: Some(protection), ..world }
}

/// A holder whom only two nodes grant the lease, and another client.
fn answered() -> World {
    let held = World { is_held: true, is_answered: true, renewals: 1, ..World::timeless() };
    World { joins: false, ballots: &[1], ..held }
}

#[test]
fn tokens_are_in_order_whatever_clocks_and_late_messages_do() {
    let one_ballot = World { jumps: 0, ballots: &[1], ..World::timeless() };
    holds_in(&World::timeless());
    holds_in(&World { ends_travel: true, ..one_ballot.clone() });
    holds_in_large(&World { ends_travel: true, jumps: 1, ..one_ballot.clone() });
    holds_in_large(&World { clients: 3, ..one_ballot });
}

#[test]
fn tokens_are_in_order_whatever_answers_are_lost_while_leases_end_early() {
    holds_in(&World { losses: 1, copies: 1, ballots: &[1], ..World::timeless() });
    holds_in_large(&World { losses: 1, jumps: 2, ..World::timeless() });
}

#[test]
fn tokens_are_in_order_whatever_other_names_draw_from_the_same_counters() {
    holds_in(&World { others: 1, ballots: &[1], ..World::timeless() });
    holds_in_large(&World { others: 2, ..World::timeless() });
}

#[test]
fn a_lease_that_is_extended_was_not_overtaken_when_it_asked() {
    holds_in(&World { copies: 1, ..answered() });
    holds_in_large(&World { copies: 1, jumps: 2, renewals: 2, ..answered() });
}

#[test]
fn a_lease_that_a_node_grants_late_proves_nothing_once_a_clock_has_jumped() {
    breaks(&World { is_answered: false, ..answered() }, PROVEN);
    breaks(&World { joins: true, ..answered() }, PROVEN);
}

#[test]
fn only_one_believes_that_it_holds_while_clocks_are_right() {
    holds_in(&World { renewals: 0, ..World::timed() });
    holds_in(&World { delay: 0, ..World::timed() });
}

#[test]
fn c1_a_node_that_forgets_makes_no_second_holder_and_gives_back_what_was_held() {
    let crash = World { is_held: true, crashes: 1, end: 3, delay: 0, ..World::timed() };
    holds_in(&crash);
    holds_in_large(&World { delay: 1, ..crash });
}

/// A holder, another client, and two nodes that forget one after the other. If three do, late
/// claims of a former holder may be granted at two of them, and the next holder has lost both.
fn in_turn() -> World {
    World {
        is_held: true,
        crashes: 2,
        in_turn: true,
        renewals: 2,
        jumps: 0,
        ballots: &[1],
        ..World::timeless()
    }
}

#[test]
fn nodes_that_forget_in_turn_beside_another_client_keep_the_holder() {
    holds_in(&in_turn());
    holds_in_large(&World { ballots: &[1, 20], ..in_turn() });
}

#[test]
fn without_counting_what_is_unanswered_a_release_closes_nothing_where_it_must() {
    let held = World { is_held: true, renewals: 1, ballots: &[1], ..World::timeless() };
    breaks(&without(Protection::Unanswered, held), ENDED_STAYS_ENDED);
}

broken! {
    fn a_refused_take_that_leaves_a_trace_ends_a_lease_that_nobody_else_has();
    without(Protection::RefusalFirst, in_turn()), KEPT;

    fn without_commits_a_later_holder_is_told_a_lower_token();
    without(Protection::Commit, World::timeless()), IN_ORDER;

    fn without_a_counter_that_outlives_the_hold_a_later_holder_is_told_a_lower_token();
    without(Protection::Counter, World::timeless()), IN_ORDER;

    fn without_the_memory_of_ended_attempts_a_late_take_is_granted_to_one();
    without(Protection::Closed, World::timeless()), ENDED_STAYS_ENDED;

    fn without_asking_nodes_that_lack_a_lease_for_it_nodes_that_forget_in_turn_end_it();
    World { joins: false, ..in_turn() }, KEPT;

    fn without_a_majority_two_believe_that_they_hold();
    without(Protection::Majority, World::timed()), ONE_HOLDER;

    fn without_the_rule_of_the_majority_for_validity_two_believe_that_they_hold();
    without(Protection::Validity, World { is_held: true, delay: 0, ..World::timed() }), ONE_HOLDER;

    fn without_a_quarantine_a_node_that_forgets_makes_two_holders();
    without(Protection::Quarantine, World { crashes: 1, ..World::timed() }), ONE_HOLDER;

    fn without_a_quarantine_a_node_that_forgets_breaks_the_order_of_tokens();
    without(Protection::Quarantine, World { is_held: true, crashes: 1, ..World::timed() }),
    IN_ORDER;

    fn what_is_taken_back_from_a_node_that_is_not_in_quarantine_proves_nothing();
    without(Protection::ClaimInQuarantine, answered()), PROVEN;

    fn a_quarantine_shorter_than_the_longest_lease_makes_two_holders();
    without(Protection::QuarantineLength, World { crashes: 1, ..World::timed() }), ONE_HOLDER;
}
