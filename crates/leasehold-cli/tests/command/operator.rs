//! The commands of an operator: `ls`, `show`, `revoke`, `where`, and `hold` in scripts.

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Background, Place, ended, json};

on_each_store!(
    ls_shows_what_is_held,
    show_with_a_token_answers_whether_that_lease_holds_it,
    show_tells_who_holds_and_who_waits_and_answers_1_when_it_is_free,
    show_tells_which_run_succeeded_last,
    hold_prints_one_line_and_lets_go_when_stdin_ends,
    hold_lets_go_on_a_signal_and_says_76_when_the_lease_is_lost,
    a_revoke_by_force_lets_the_next_in_at_once,
);

on_postgres!(
    ls_shows_what_is_held,
    show_tells_who_holds_and_who_waits_and_answers_1_when_it_is_free,
    show_tells_which_run_succeeded_last,
    hold_prints_one_line_and_lets_go_when_stdin_ends,
    hold_lets_go_on_a_signal_and_says_76_when_the_lease_is_lost,
    a_revoke_by_force_lets_the_next_in_at_once,
);

fn ls_shows_what_is_held(place: &Place) {
    let empty = place.end(&["ls"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""), "{empty:?}");
    let _jobs = place.holder("jobs/busy", &["--label", "nightly"]);
    let _other = place.holder("other", &[]);
    assert!(place.token("jobs/busy").is_some() && place.token("other").is_some());
    let table = place.end(&["ls"]).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 3, "{table}");
    assert!(rows[0].starts_with("NAME"), "{table}");
    assert!(rows[1].starts_with("jobs/busy") && rows[1].ends_with("nightly"), "{table}");
    assert!(rows[2].starts_with("other"), "{table}");
    let jobs = json(&place.end(&["ls", "jobs/", "--json"]).stdout);
    assert_eq!((&jobs[0]["name"], &jobs[1]), (&json("\"jobs/busy\""), &Value::Null));
    assert_eq!(json(&place.end(&["ls", "nothing", "--json"]).stdout), json("[]"));
}

fn show_tells_who_holds_and_who_waits_and_answers_1_when_it_is_free(place: &Place) {
    let free = place.end(&["show", "x"]);
    assert_eq!((free.code, free.stdout.as_str()), (Some(1), "x is free\n"));
    let holder = place.holder("x", &["--label", "first", "--shared"]);
    let _waiter = place.waiter("x", &["--label", "second"], "true");
    assert!(place.token("x").is_some());
    let table = place.end(&["show", "x"]);
    assert_eq!(table.code, Some(0));
    let pid = holder.pid().as_raw_nonzero();
    for words in [&format!(":{pid} "), "shared", "first", "second", "exclusive"] {
        assert!(table.stdout.contains(words), "{words:?}: {table:?}");
    }
    let status = place.show("x");
    assert_eq!(status["holders"][0]["pid"], pid.get());
    assert_eq!(status["waiters"][0]["position"], 1);
    assert!(status["holders"][0]["token"].is_string(), "{status}");
    assert!(status["holders"][0]["left_seconds"].as_f64().unwrap() > 0.0);
}

fn show_tells_which_run_succeeded_last(place: &Place) {
    let once = ["run", "x", "--label", "nightly", "--once-per", "1h", "--", "true"];
    place.end(&once).assert_silent(0);
    let free = place.end(&["show", "x"]);
    assert_eq!(free.code, Some(1), "it is free: {free:?}");
    let last = &place.show("x")["last"];
    assert!(free.stdout.starts_with("x is free; done "), "{free:?}");
    assert!(free.stdout.contains(&format!(":{} (nightly), token ", last["pid"])), "{free:?}");
    assert!(free.stdout.ends_with(&format!("{}\n", last["token"].as_str().unwrap())), "{free:?}");
    place.end(&["run", "x", "--", "true"]).assert_silent(0);
    assert_eq!(place.show("x")["last"]["token"], last["token"], "it did not ask");
}

fn show_with_a_token_answers_whether_that_lease_holds_it(place: &Place) {
    let mut holder = Background::fed(place.leasehold(&["hold", "x"]));
    holder.line();
    let token = place.token("x").unwrap();
    place.end(&["show", "x", "--token", &token]).assert_silent(0);
    place.end(&["show", "x", "--token", &token, "--json"]).assert_silent(0);
    let not = |token: &str| place.end(&["show", "x", "--token", token]);
    not("1").assert_failed(1, "the lease with token 1 does not hold it");
    holder.close_stdin();
    holder.end().assert_silent(0);
    not(&token).assert_failed(1, "does not hold it");
    // The next lease has another token.
    let _next = place.holder("x", &[]);
    not(&token).assert_failed(1, "does not hold it");
    not("x").assert_failed(2, "not a fencing token");
}

fn hold_prints_one_line_and_lets_go_when_stdin_ends(place: &Place) {
    let mut hold = Background::fed(place.leasehold(&["hold", "x"]));
    let line = json(&hold.line());
    assert_eq!(line["name"], "x");
    assert_eq!(line["token"].as_str().map(str::to_owned), place.token("x"));
    hold.close_stdin();
    hold.end().assert_silent(0);
    assert_eq!(place.end(&["show", "x"]).code, Some(1));
}

fn hold_lets_go_on_a_signal_and_says_76_when_the_lease_is_lost(place: &Place) {
    let mut hold = Background::fed(place.leasehold(&["hold", "x"]));
    let _open = hold.child().stdin.take();
    hold.line();
    hold.signal(Signal::TERM);
    hold.end().assert_silent(0);
    let mut hold = Background::fed(place.leasehold(&["hold", "x"]));
    let _open = hold.child().stdin.take();
    hold.line();
    place.end(&["hold", "x", "-n", "-E", "3"]).assert_failed(3, "busy");
    place.revoke("x", &[]);
    hold.end().assert_failed(76, "an operator revoked the lease");
}

fn a_revoke_by_force_lets_the_next_in_at_once(place: &Place) {
    let holder = place.holder("x", &["--on-lost", "ignore"]);
    let waiter = place.waiter("x", &["-q"], "true");
    let token = place.token("x").unwrap();
    let revoked = place.end(&["revoke", "x", &token, "--force"]);
    revoked.assert_failed(0, "may still be at work");
    waiter.end().assert_silent(0);
    drop(holder);
}

#[test]
fn hold_in_the_background_of_a_script_holds_until_it_is_ended() {
    let place = Place::on_file();
    let mut hold = Background::start(place.leasehold(&["hold", "x"]));
    assert!(hold.error_line().contains("stdin is /dev/null"));
    assert!(hold.line().contains("token"));
    assert!(place.token("x").is_some());
    hold.signal(Signal::TERM);
    assert_eq!(hold.end().code, Some(0));
    assert!(place.token("x").is_none());
}

#[test]
fn where_prints_the_store_and_its_reason_without_the_password() {
    let place = Place::on_file();
    let shown = place.end(&["where"]);
    assert_eq!(shown.stdout, format!("{}  (LEASEHOLD_STORE)\n", place.url));
    let shown = place.end(&["where", "--json", "-s", "redis://u:secret@h/"]);
    assert_eq!(json(&shown.stdout), json(r#"{"store":"redis://u:***@h/","because":"--store"}"#));
}

#[test]
fn where_says_so_if_what_is_configured_is_no_store_url() {
    let mut place = Place::on_file();
    for (url, shown, words) in [
        (
            "/srv/w/x.db",
            "***  (LEASEHOLD_STORE)\n",
            "LEASEHOLD_STORE: the store URL begins with no",
        ),
        ("redis://h?ttl=1", "redis:***  (LEASEHOLD_STORE)\n", "unknown option"),
        ("file:~/x.db", "file:~/x.db  (LEASEHOLD_STORE)\n", "`~` stands for no directory"),
        (
            "redis://h?layout=plain&quarantine=on",
            "redis://h?layout=plain&quarantine=on  (LEASE",
            "do not keep it",
        ),
    ] {
        place.url = url.to_owned();
        let told = place.end(&["where"]);
        told.assert_failed(2, words);
        assert!(told.stdout.starts_with(shown), "{told:?}");
        place.end(&["ls"]).assert_failed(2, words);
    }
    place.url = "file:x.db".to_owned();
    place.end(&["where"]).assert_failed(2, "another file in every directory");
    place.end(&["run", "x", "--", "true"]).assert_failed(2, "another file in every directory");
    place.end(&["run", "x", "-s", "file:x.db", "--", "true"]).assert_silent(0);
}

#[test]
fn help_completions_and_manual_come_from_the_command_itself() {
    let place = Place::on_file();
    for arguments in [&["--help"][..], &["run", "--help"], &["hold", "-h"]] {
        let help = place.end(arguments);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{help:?}");
        assert!(help.stdout.contains("Usage: leasehold"), "{help:?}");
    }
    assert!(place.end(&["--help"]).stdout.contains("Examples:"));
    assert!(place.end(&["--version"]).stdout.starts_with("leasehold "));
    for shell in ["bash", "zsh", "fish"] {
        let script = place.end(&["completions", shell]).stdout;
        assert!(script.contains("@complete") && !script.contains("@guardian"), "{shell}");
    }
    assert!(place.end(&["man"]).stdout.contains(".TH leasehold"));
    assert!(place.end(&["man", "run"]).stdout.contains("kill\\-after"));
    place.end(&["man", "nothing"]).assert_failed(2, "nothing");
}

#[test]
fn no_reader_of_manual_pages_complains_about_one() {
    let place = Place::on_file();
    let pages = place.end(&["@complete", "man", ""]).stdout;
    let pages = pages.lines().filter_map(|line| line.split('\t').next()).chain([""]);
    // Whichever program is there; `cargo xtask test` names the missing one.
    let readers = [
        "groff -ww -man -Tutf8 -P-c page",
        "man --warnings -l page",
        "mandoc -T lint -W error page",
    ];
    for page in pages {
        let words = if page.is_empty() { vec!["man"] } else { vec!["man", page] };
        let roff = place.end(&words).stdout;
        assert!(
            roff.contains("\"leasehold 0.") || ["postgres", "redis", "store"].contains(&page),
            "{page}"
        );
        std::fs::write(place.path("page"), roff).unwrap();
        for reader in readers {
            let name = reader.split(' ').next().unwrap_or_default();
            let script = format!("! command -v {name} > /dev/null || {reader} 2>&1 > /dev/null");
            let read = ended(place.program("sh", &["-c", &script]));
            assert_eq!((read.code, read.stdout.as_str()), (Some(0), ""), "{page}: {reader}");
        }
    }
}

/// A page as it is read, without typesetting commands.
fn page(place: &Place, name: &str) -> String {
    let page = place.end(&["man", name]);
    assert_eq!((page.code, page.stderr.as_str()), (Some(0), ""));
    let marks = [("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\-", "-"), ("\\(aq", "'")];
    let more = [("\\(ti", "~"), ("\\(ga", "`"), ("\\\\", "\\")];
    let all = marks.into_iter().chain(more);
    all.fold(page.stdout, |page, (mark, meaning)| page.replace(mark, meaning))
}

#[test]
fn the_manual_says_how_it_is_called_with_examples_exit_codes_environment_and_files() {
    let place = Place::on_file();
    let run = page(&place, "run");
    for words in [
        "\n.nf\nleasehold run NAME... [OPTIONS] -- CMD...\n.fi\n",
        "--max-hold <DURATION>\nEnds the work under the lock",
        ".SH EXAMPLES\n.PP\n.nf\n",
        ".SH \"EXIT STATUS\"\n",
        ".SH ENVIRONMENT\n",
        ".TP\nLEASEHOLD_PASSWORD_FILE\n",
        ".TP\nLEASEHOLD_SENTINEL_PASSWORD\n",
        ".SH FILES\n",
        ".TP\n/etc/leasehold/store\n",
    ] {
        assert!(run.contains(words), "{words:?}: {run}");
    }
    let help = place.end(&["run", "--help"]).stdout;
    let (_, examples) = help.split_once("\nExamples:\n").unwrap();
    let (examples, _) = examples.split_once("\n\n").unwrap();
    assert!(run.contains(&format!(".nf\n{examples}\n.fi\n")), "{examples}: {run}");
    assert!(page(&place, "show").contains("\nleasehold show NAME [OPTIONS]\n"));
}

#[test]
fn the_manual_of_store_urls_has_every_option() {
    let place = Place::on_file();
    let manual = page(&place, "store");
    let told = place.end(&["ls", "-s", "redis://h?option=1"]).stderr;
    let (_, options) = told.trim_end().split_once("there are ").unwrap();
    for option in options.split([',', ' ']).filter(|word| !matches!(*word, "" | "and")) {
        let row = format!(".TP\n{option}");
        let in_row = format!(", {option}\n");
        assert!(manual.contains(&row) || manual.contains(&in_row), "{option}: {manual}");
    }
    for words in ["install -g jobs -m 660 /dev/null", "LEASEHOLD_PASSWORD\n"] {
        assert!(manual.contains(words), "{words}");
    }
    assert!(page(&place, "redis").contains("ACL SETUSER holder"));
    for help in [&["--help"][..], &["run", "--help"]] {
        assert!(place.end(help).stdout.contains("leasehold man store"));
    }
}

#[test]
fn a_lock_that_another_program_holds_is_shown_as_such() {
    let place = Place::on_redis_with("layout=plain&prefix=jobs:");
    let server = place.server.as_ref().unwrap();
    server.command::<()>("SET jobs:a 3f2c-uuid NX PX 60000").unwrap();
    server.command::<()>("SET jobs:b no-end NX").unwrap();
    server.command::<()>("SET jobs:c \"\" NX PX 60000").unwrap();
    server.command::<()>("HSET jobs:d field value").unwrap();
    let table = place.end(&["show", "a"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    for words in ["another program", "exclusive", "held", "\"3f2c-uuid\""] {
        assert!(table.stdout.contains(words), "{words:?}: {table:?}");
    }
    let table = place.end(&["ls"]).stdout;
    let rows: Vec<&str> = table.lines().collect();
    assert!(rows[1].starts_with("a ") && rows[2].starts_with("b "), "{table}");
    assert!(!rows[1].contains("no end") && rows[2].contains("no end"), "{table}");
    assert!(rows[3].starts_with("c ") && rows[3].contains("another program"), "{table}");
    assert!(rows[4].starts_with("d ") && rows[4].contains("cannot be read"), "{table}");
    assert!(place.show("a")["foreign"]["left_seconds"].as_f64().unwrap() > 0.0);
    let status = place.show("b");
    assert_eq!(status["holders"], json("[]"));
    assert_eq!(status["foreign"]["value"], "no-end");
    assert!(status["foreign"]["left_seconds"].is_null(), "{status}");
    place.end(&["run", "a", "--no-wait", "--", "true"]).assert_failed(75, "a program other than");
    place.end(&["run", "a", "--wait", "1s", "--", "true"]).assert_failed(75, "still busy");
    server.command::<()>("DEL jobs:a").unwrap();
    place.end(&["run", "a", "--no-wait", "--", "true"]).assert_silent(0);
    assert_eq!(place.end(&["show", "a"]).code, Some(1));
}

#[test]
fn a_quarantine_ends_on_the_word_of_an_operator() {
    let place = Place::on_redis_with("quarantine=on");
    let run = ["run", "a", "--no-wait", "--", "true"];
    place.end(&run).assert_failed(69, "end-quarantine");
    place.end(&["end-quarantine"]).assert_silent(0);
    place.end(&["run", "a", "-q", "--wait", "30s", "--", "true"]).assert_silent(0);
}
