//! `ls`: which locks it lists, and since when they are held.

use crate::harness::{Place, until};

on_each_store!(a_list_is_sorted_by_name_and_has_only_what_is_held_for_long_enough);

/// The first column.
fn names(table: &str) -> Vec<&str> {
    table.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect()
}

fn a_list_is_sorted_by_name_and_has_only_what_is_held_for_long_enough(place: &Place) {
    let _old = place.holder("b", &["--ttl", "1h", "--permits", "3/5"]);
    let held = || place.show("b")["holders"][0]["held_seconds"].as_f64();
    until("it is held for a second", || held() > Some(1.0));
    let _awaited = place.holder("c", &["--ttl", "10s"]);
    let _young = place.holder("a", &["--ttl", "1m"]);
    let _waiter = place.waiter("c", &["-q"], "true");
    assert_eq!(names(&place.end(&["ls"]).stdout), ["a", "b", "c"]);
    let old = place.end(&["ls", "--held-longer-than", "1s"]);
    assert!(names(&old.stdout).contains(&"b"), "{old:?}");
    assert!(old.stdout.contains(" 3/5 "), "{old:?}");
    let none = place.end(&["ls", "--held-longer-than", "10m"]);
    none.assert_failed(0, "no lock is held for longer than 10m");
    assert_eq!(none.stdout, "");
    // Since when: as people read the time, and as programs do.
    let mut here = place.leasehold(&["ls", "b"]);
    here.env("TZ", "UTC0");
    let here = crate::harness::ended(here).stdout;
    let since = place.show("b")["holders"][0]["held_since"].as_str().unwrap().to_owned();
    let clock = since.split_once('T').unwrap().1.trim_end_matches('Z');
    // The same second, except for rounding.
    let (shown, _) = clock.rsplit_once(':').unwrap();
    assert!(here.contains(shown) || here.contains(":00 "), "{since}: {here}");
    let mut abroad = place.leasehold(&["show", "b"]);
    abroad.env("TZ", "XYZ-5:30");
    assert!(!crate::harness::ended(abroad).stdout.contains(clock), "{since}");
}

#[test]
fn what_is_wrong_with_a_list_is_said_in_one_line() {
    let place = Place::on_file();
    place.end(&["ls", "--held-longer-than", "soon"]).assert_failed(2, "is not a duration");
}
