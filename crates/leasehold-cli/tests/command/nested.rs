//! A command under a lease that asks for a lock itself.

use crate::harness::{PROGRAM, Place, ended};

on_each_store!(
    who_would_wait_for_itself_is_told_so,
    what_fits_beside_the_lease_around_it_is_granted,
);

fn who_would_wait_for_itself_is_told_so(place: &Place) {
    let itself = "it would wait for itself";
    let inner = format!("exec {PROGRAM} run a -- echo never");
    ended(place.shell("a", &[], &inner)).assert_failed(75, itself);
    ended(place.shell("a", &["--shared"], &inner)).assert_failed(75, itself);
    let reader = format!("exec {PROGRAM} run a --shared -- echo never");
    ended(place.shell("a", &[], &reader)).assert_failed(75, itself);
    // Also in a deeper command, and for one of several names.
    let further_in = format!("exec {PROGRAM} run b -- {PROGRAM} run c a -- echo never");
    ended(place.shell("a", &[], &further_in)).assert_failed(75, itself);
    let hold = format!("exec {PROGRAM} hold a");
    ended(place.shell("a", &[], &hold)).assert_failed(75, itself);
}

fn what_fits_beside_the_lease_around_it_is_granted(place: &Place) {
    let inner = format!("exec {PROGRAM} run a --shared -- true");
    ended(place.shell("a", &["--shared"], &inner)).assert_silent(0);
    let inner = format!("exec {PROGRAM} run p --permits 1/2 -- true");
    ended(place.shell("p", &["--permits", "1/2"], &inner)).assert_silent(0);
    let inner = format!("exec {PROGRAM} run b -- true");
    ended(place.shell("a", &[], &inner)).assert_silent(0);
}

#[test]
fn permits_that_only_others_can_give_back_are_waited_for() {
    let place = Place::on_file();
    let mut other = place.holder("p", &["--permits", "1/2"]);
    let inner = format!("exec {PROGRAM} run p --permits 1/2 -w 2s -- true");
    ended(place.shell("p", &["--permits", "1/2"], &inner)).assert_failed(75, "still busy");
    other.close_stdin();
}

#[test]
fn a_command_is_told_of_leases_around_its_own_only_where_there_are_any() {
    let place = Place::on_file();
    let outer = "echo ${LEASEHOLD_OUTER_HOLDERS-none}";
    assert_eq!(ended(place.shell("a", &[], outer)).stdout, "none\n");
    let inner = format!("echo $LEASEHOLD_HOLDER; {PROGRAM} run b -- sh -c '{outer}'");
    let said = ended(place.shell("a", &[], &inner)).stdout;
    let (own, outer) = said.split_once('\n').unwrap();
    assert_eq!(outer.trim_end(), own);
}
