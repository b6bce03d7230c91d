//! The tests that every store of leasehold must pass: run them against a store that you have
//! written.
//!
//! A store is a [`Store`](leasehold::store::Store): it applies
//! [`step`](leasehold::store::protocol::step), or the same in another language, to the record of a
//! name, atomically. A [`Subject`] is a store together with its clock, and [`conformance!`] makes a
//! test of every case:
//!
//! ```
//! use leasehold_conformance::{Subject, conformance};
//!
//! async fn make() -> Subject {
//!     // The store under test; here one that comes with leasehold, in real time. What it needs
//!     // (a server, a directory) is the second argument and lives as long as the subject.
//!     Subject::real(leasehold::store::Memory::new(), ())
//! }
//!
//! conformance!(make());
//! ```
//!
//! Put this into a file in `tests/` of your crate, with `leasehold-conformance` in its
//! dev-dependencies at the version of `leasehold`, and run `cargo test`. Nothing else is needed: a
//! case brings its own runtime.
//!
//! - If your store reads the time from a given [`Clock`](leasehold::time::Clock), use
//!   [`Subject::fake`]: the tests are faster and more exact, on a clock that only the cases move.
//! - If a deployment takes long to start, `conformance!(together make())` runs all cases on one.
//! - Cases draw fresh names, so leftovers of earlier runs do not disturb them.
//! - A case asks [`Capabilities`](leasehold::store::Capabilities) what the store can do. A store
//!   must refuse everything else with a typed error, and the case tests that or passes immediately.
//!
//! A case is a function, so you can run a failing case alone:
//!
//! ```
//! use leasehold_conformance::{Subject, run, store};
//!
//! run(async {
//!     let subject = Subject::memory();
//!     store::tokens_grow_from_grant_to_grant(&subject).await;
//! });
//! ```
//!
//! # What the suite does not test
//!
//! The suite only sees a healthy store. Write your own tests for the faults:
//!
//! - a grant outlives the crash of a server;
//! - after a lost reply, the same attempt gets that reply again;
//! - a clock that steps back ends no lease too late.
#![forbid(unsafe_code)]

pub mod capacities;
pub mod compose;
pub mod last;
pub mod library;
pub mod line;
pub mod modes;
pub mod operator;
pub mod peers;
pub mod queue;
pub mod store;
pub mod waiting;

mod bench;
mod passes_on;
mod subject;

use std::future::{Future, poll_fn};
use std::pin::Pin;

use futures_util::stream::{self, StreamExt as _};

pub use self::peers::{alone, elections, permits, readers};
pub use self::subject::{SharedStore, Subject, fresh_number};

/// Makes a test of every case: `conformance!(make())`. The expression returns a future of a
/// [`Subject`] and is evaluated for each test.
///
/// `conformance!(together make())` makes one test that runs all cases at the same time on one
/// subject. Use it for a store that takes long to start, and whose cases have been tested
/// separately in another setting.
#[macro_export]
macro_rules! conformance {
    (together $make:expr) => {
        $crate::conformance! { @list together $make }
    };
    ($make:expr) => {
        $crate::conformance! { @list each $make }
    };
    (@list $how:ident $make:expr) => {
        $crate::conformance! { @$how $make;
            store::a_copy_of_an_acquire_gets_the_same_grant_again;
            queue::without_a_queue_an_attempt_that_would_wait_is_told_so;
            store::busy_tells_how_long_the_lease_may_last;
            store::of_many_who_ask_at_once_one_is_granted;
            queue::waiters_are_granted_in_the_order_of_joining;
            queue::a_copy_of_a_waiting_acquire_keeps_its_place;
            queue::a_waiter_that_brings_its_place_does_not_begin_at_the_end;
            queue::a_grant_is_told_to_its_client_and_to_nobody_else;
            queue::a_hand_over_that_nobody_claims_goes_to_the_next;
            store::a_lapsed_lease_goes_to_the_waiter_that_asks;
            queue::a_waiter_that_is_frozen_is_passed_over;
            queue::a_waiter_that_gives_up_is_gone_and_its_grant_is_handed_on;
            store::an_attempt_that_was_closed_gets_nothing_from_a_late_copy;
            store::a_renewal_moves_the_deadline_and_revives_nothing;
            store::many_leases_are_renewed_in_one_call_and_answered_in_order;
            queue::a_renewal_tells_whether_somebody_waits;
            store::a_release_by_somebody_else_touches_nobody;
            operator::a_revocation_hits_the_attempt_that_holds_and_no_other;
            operator::a_forced_revocation_hands_the_lock_on_at_once;
            store::a_holder_changes_what_it_says_of_itself_and_nobody_else_does;
            store::an_adopted_lease_is_its_adopters_and_nobody_elses;
            store::a_lapsed_lease_is_adopted_by_nobody;
            store::an_adoption_that_was_given_up_is_not_done_when_it_comes_late;
            store::tokens_grow_from_grant_to_grant;
            operator::an_operator_sees_who_holds_and_who_waits;
            operator::names_are_listed_by_prefix_and_only_while_in_use;
            store::names_of_any_script_are_told_apart;
            store::asking_about_an_unknown_name_leaves_nothing_behind;
            last::a_run_that_succeeded_is_enough_for_its_span;
            last::a_run_that_did_not_succeed_leaves_nothing;
            last::a_cooldown_ends_no_hold;
            alone::a_crowd_that_gives_up_costs_nobody_its_turn;
            alone::a_lease_is_relied_on_no_longer_than_the_store_keeps_it;
            alone::a_limit_beyond_any_clock_is_as_good_as_none;
            readers::a_dead_reader_is_not_kept_by_a_living_one;
            readers::who_waits_behind_one_that_gives_up_is_let_in;
            permits::the_largest_semaphore_counts_exactly;
            elections::followers_see_what_each_leader_says_in_turn;
            modes::readers_hold_together_and_a_writer_alone;
            modes::readers_that_ask_at_once_have_two_tokens;
            modes::waiting_readers_are_let_in_together;
            modes::permits_add_up_to_the_capacity;
            modes::a_reader_and_permits_are_adopted_beside_their_peers;
            modes::a_name_in_use_as_something_else_is_refused;
            modes::what_a_store_cannot_do_is_refused;
            capacities::who_asks_for_another_capacity_waits_until_nobody_holds;
            capacities::a_rolling_deployment_with_another_capacity_fails_nobody;
            library::an_exclusive_lease_has_one_holder_at_a_time;
            library::a_lease_is_renewed_for_a_longer_or_a_shorter_ttl;
            library::a_dropped_guard_gives_the_lock_back;
            library::a_dropped_acquire_leaves_nothing_behind;
            library::a_grant_that_nobody_fetches_goes_to_the_next;
            library::a_lease_outlives_its_ttl_while_it_is_held;
            library::a_wait_ends_at_its_limit_and_says_who_holds;
            library::a_limit_of_zero_is_a_try;
            library::a_revoked_lease_is_lost_by_its_holder;
            library::a_lease_that_is_revoked_at_once_after_its_grant_says_so;
            library::a_lease_is_adopted_once;
            library::a_second_guard_keeps_the_lease_until_both_are_gone;
            library::a_closed_client_gives_everything_back;
            library::no_update_is_lost_among_many_clients;
            line::a_lease_goes_from_caller_to_caller_without_the_store;
            line::a_try_in_line_is_busy_without_the_store;
            line::who_stands_in_line_gets_the_limit_that_it_asks_for;
            line::clients_take_turns_and_so_do_the_callers_of_each;
            line::a_lease_that_was_passed_on_is_revoked_by_the_token_of_its_grant;
            line::who_keeps_a_lease_that_was_passed_on_is_shown_and_revoked;
            waiting::who_waits_for_a_lease_of_the_same_client_is_told_so;
            waiting::a_reader_that_comes_again_behind_a_writer_is_told_so;
            waiting::of_several_holders_one_is_told_and_the_others_are_counted;
            compose::several_names_are_held_all_or_none;
            compose::callers_with_reversed_names_never_wait_for_each_other;
            compose::of_many_who_try_for_several_names_at_once_one_gets_them;
            compose::a_try_outlasts_a_caller_that_has_just_taken_one_of_its_names;
            compose::a_leader_is_seen_with_what_it_says;
            compose::an_observer_misses_no_leader_of_fifty;
            compose::the_end_of_a_lease_is_told_to_those_who_watch;
            compose::a_job_that_ended_at_once_is_skipped_for_a_while;
        }
    };
    (@together $make:expr; $($group:ident :: $case:ident;)*) => {
        #[test]
        fn it_does_what_every_store_must_do() {
            $crate::run(async {
                let subject: $crate::Subject = $make.await;
                $crate::together(vec![
                    $((stringify!($case), $crate::boxed(|| $crate::$group::$case(&subject))),)*
                ]).await;
            });
        }
    };
    (@each $make:expr; $($group:ident :: $case:ident;)*) => {
        $(
            #[test]
            fn $case() {
                $crate::run(async {
                    let subject: $crate::Subject = $make.await;
                    $crate::$group::$case(&subject).await;
                });
            }
        )*
    };
}

/// Runs a case, on a separate runtime.
///
/// # Panics
///
/// If the case fails.
pub fn run(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    // One type for all cases, so that the runtime is compiled for it once.
    let case: Case<'_> = Box::pin(case);
    subject::must(runtime).block_on(case);
}

/// The future of a case.
type Case<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// How many cases run at the same time on one subject: 6. They share a thread, and with more of
/// them, cases with short time limits do not get their turn.
const AT_A_TIME: usize = 6;

/// Makes a case. A separate function, so that the stack never holds more than one unboxed case at a
/// time.
#[inline(never)]
pub fn boxed<'a, F: Future<Output = ()> + 'a>(make: impl FnOnce() -> F) -> Case<'a> {
    Box::pin(make())
}

/// Runs cases, some at the same time.
///
/// # Panics
///
/// When a case fails, with its name on stderr.
pub async fn together(cases: Vec<(&str, Case<'_>)>) {
    let named = cases.into_iter().map(|(name, mut case)| {
        poll_fn(move |context| {
            let _named = Named(name);
            case.as_mut().poll(context)
        })
    });
    stream::iter(named).buffer_unordered(AT_A_TIME).collect::<()>().await;
}

/// Prints the name of the case when the case panics.
struct Named<'a>(&'a str);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it failed in the case {}", self.0);
        }
    }
}
