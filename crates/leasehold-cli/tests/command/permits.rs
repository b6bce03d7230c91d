//! Semaphores: for whom permits are, and how many are taken.

use crate::harness::{Background, Place};

on_each_store!(
    who_waits_for_another_number_of_permits_says_why_and_is_let_in,
    ls_shows_of_each_lock_how_it_is_held,
);

fn who_waits_for_another_number_of_permits_says_why_and_is_let_in(place: &Place) {
    let mut first = place.holder("gpu", &["--permits", "1/4"]);
    let run = ["run", "gpu", "--permits", "1/8"];
    let tried = place.end(&[&run[..], &["-n", "--", "true"]].concat());
    tried.assert_failed(2, "semaphore of 4, and 1 of 8 permits were asked for");
    let mut second = Background::start(place.leasehold(&[&run[..], &["--", "true"]].concat()));
    let said = second.error_line();
    assert!(said.contains("semaphore of 4") && said.contains("once nobody holds it"), "{said}");
    first.close_stdin();
    second.end().assert_silent(0);
}

fn ls_shows_of_each_lock_how_it_is_held(place: &Place) {
    let _readers = [place.holder("a", &["--shared"]), place.holder("a", &["--shared"])];
    let _permits = [&["--permits", "2/4"], &["--permits", "1/4"]].map(|o| place.holder("b", o));
    let _others = [place.holder("c", &[]), place.holder("d", &["--shared"])];
    let table = place.end(&["ls"]).stdout;
    let cells: Vec<Vec<&str>> =
        table.lines().map(|row| row.split_whitespace().take(2).collect()).collect();
    let expected = [["NAME", "MODE"], ["a", "r×2"], ["b", "3/4"], ["c", "w"], ["d", "r"]];
    assert_eq!(cells, expected, "{table}");
}
