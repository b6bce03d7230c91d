//! Semaphores: how many permits there are, for whom, and how many are taken.

use crate::harness::{Background, Place, until};

on_each_store!(
    permits_changes_how_many_there_are_while_they_are_held,
    who_waits_for_another_number_of_permits_says_why_and_is_let_in,
    ls_shows_of_each_lock_how_it_is_held,
);

on_postgres!(permits_changes_how_many_there_are_while_they_are_held);

fn permits_changes_how_many_there_are_while_they_are_held(place: &Place) {
    place.end(&["permits", "gpu", "2"]).assert_failed(1, "nobody holds or awaits it");
    let _first = place.holder("gpu", &["--permits", "1/1"]);
    let second = Background::start(place.shell("gpu", &["--permits", "1/1"], "true"));
    until("somebody waits", || place.show("gpu")["waiting"] == 1);
    place.end(&["permits", "gpu", "2"]).assert_silent(0);
    second.end().assert_silent(0);
    let told = place.end(&["permits", "gpu", "1", "-v"]);
    assert!(told.stderr.ends_with("gpu: the capacity is 1, and was 2\n"), "{told:?}");
    let busy = place.end(&["run", "gpu", "--permits", "1/1", "-n", "--", "true"]);
    busy.assert_failed(75, "busy");
    let _mutex = place.holder("deploy", &[]);
    place.end(&["permits", "deploy", "2"]).assert_failed(2, "in use as a mutex");
}

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
