//! Several names at once, and jobs that run once.

use crate::harness::{Background, Place, ended, until};

on_each_store!(
    several_names_are_held_together_and_the_command_sees_their_tokens,
    a_job_that_ended_at_once_is_skipped_until_min_hold_is_over,
);

fn several_names_are_held_together_and_the_command_sees_their_tokens(place: &Place) {
    let script = "echo \"$LEASEHOLD_NAME|$LEASEHOLD_TOKEN\"; cat";
    let mut running =
        Background::fed(place.leasehold(&["run", "b", "a", "b", "--", "sh", "-c", script]));
    let line = running.line();
    let (names, tokens) = line.split_once('|').unwrap();
    assert_eq!(names, "b a");
    let held: Vec<_> = ["b", "a"].map(|name| place.token(name).unwrap()).into();
    assert_eq!(tokens.split(' ').collect::<Vec<_>>(), held);
    place.end(&["run", "c", "a", "-n", "--", "true"]).assert_failed(75, "a is busy: held by");
    running.close_stdin();
    assert_eq!(running.end().code, Some(0));
    for name in ["a", "b", "c"] {
        assert_eq!(place.token(name), None);
    }
}

fn a_job_that_ended_at_once_is_skipped_until_min_hold_is_over(place: &Place) {
    let job = |name, least| {
        let options = ["-n", "-E", "0", "--min-hold", least, "--max-hold", "1h"];
        ended(place.shell(name, &options, "echo ran")).stdout
    };
    assert_eq!(job("hourly", "59m"), "ran\n");
    let skipped = ended(place.shell("hourly", &["-n", "-E", "0"], "echo ran"));
    skipped.assert_failed(0, "hourly is busy: in cooldown for another 58m");
    let (_, remedy) = skipped.stderr.trim_end().split_once("; to end that: leasehold ").unwrap();
    assert_eq!(place.show("hourly")["holders"][0]["state"], "cooldown");
    place.end(&remedy.split(' ').collect::<Vec<_>>()).assert_silent(0);
    assert_eq!(job("hourly", "59m"), "ran\n");
    assert_eq!(job("brief", "500ms"), "ran\n");
    until("the job runs again", || job("brief", "500ms") == "ran\n");
}

#[test]
fn several_names_in_another_mode_or_too_many_are_refused() {
    let place = Place::on_file();
    let refused = place.end(&["run", "a", "b", "--shared", "--", "true"]);
    refused.assert_failed(2, "one name");
    let names: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    let mut arguments = vec!["run"];
    arguments.extend(names.iter().map(String::as_str));
    arguments.extend(["--", "true"]);
    place.end(&arguments).assert_failed(2, "more than 64 names");
    let others = ["hold", "a", "--min-hold", "90s", "--max-hold", "1.5m", "--wait", "0x"];
    place.end(&others).assert_failed(2, "0x");
}

#[test]
fn the_limits_of_a_hold_have_two_names_each() {
    let place = Place::on_file();
    for (least, most) in [
        ("--min-hold", "--max-hold"),
        ("--at-least", "--at-most"),
        ("--min-hold", "--at-most"),
        ("--at-least", "--max-hold"),
    ] {
        let backwards = place.end(&["hold", "a", least, "91", most, "1.5m"]);
        backwards.assert_failed(2, "--min-hold 91 is longer than --max-hold 1.5m");
        let over = ended(place.shell("a", &[most, "0.1"], "sleep 600"));
        over.assert_failed(76, "--max-hold 0.1 is over");
        let refused = place.end(&["run", "a", least, "25h", "--", "true"]);
        refused.assert_failed(2, "'25h' for '--min-hold");
        let refused = place.end(&["run", "a", most, "0", "--", "true"]);
        refused.assert_failed(2, "'0' for '--max-hold");
    }
    let help = place.end(&["run", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, alias) in [("min-hold", "at-least"), ("max-hold", "at-most")] {
        assert!(help.contains(&format!("--{name} <DURATION>")), "{help}");
        assert!(help.contains(&format!("(alias: --{alias})")), "{help}");
        assert!(!help.contains(&format!("--{alias} <")), "{help}");
    }
}
