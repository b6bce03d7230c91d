//! The program on a PostgreSQL database.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use leasehold_testkit::Postgres;

use crate::harness::{Background, Place};
use crate::serve::served::Served;

/// A place on a private server, unless none is installed.
fn place() -> Option<(Place, Postgres)> {
    let Some(server) = Postgres::start().unwrap() else {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
        println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    Some((Place { directory, server: None, url: server.url() }, server))
}

#[test]
fn a_command_is_run_seen_and_revoked_on_a_database() {
    let Some((place, _server)) = place() else { return };
    let silent = place.end(&["run", "job", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN > token"]);
    silent.assert_silent(0);
    let first: u64 = place.read("token").trim().parse().unwrap();
    let _holder = place.holder("job", &["--label", "nightly"]);
    let table = place.end(&["ls"]).stdout;
    assert!(table.contains("job") && table.contains("nightly"), "{table}");
    let token: u64 = place.token("job").unwrap().parse().unwrap();
    assert!(token > first);
    place.end(&["run", "job", "--no-wait", "--", "true"]).assert_ended(75);
    place.end(&["revoke", "job", "--token", &token.to_string(), "--force"]).assert_ended(0);
    place.end(&["run", "job", "--", "true"]).assert_silent(0);
}

#[test]
fn a_lock_is_taken_in_one_step_and_given_in_another_on_a_database() {
    let Some((place, _server)) = place() else { return };
    let handle = place.end(&["take", "staging", "--for", "10m"]);
    handle.assert_ended(0);
    assert!(place.token("staging").is_some());
    place.end(&["give", handle.stdout.trim()]).assert_ended(0);
    assert_eq!(place.token("staging"), None);
}

#[test]
fn a_leader_is_elected_and_shown_on_a_database() {
    let Some((place, _server)) = place() else { return };
    let mut leader = Background::fed(place.leasehold(&["elect", "lead", "--value", "here"]));
    assert!(leader.line().contains("\"lead\""));
    let shown = place.end(&["elect", "lead", "--show"]);
    assert_eq!((shown.code, shown.stdout.trim()), (Some(0), "here"));
}

#[test]
fn a_page_shows_the_locks_of_a_database() {
    let Some((place, _server)) = place() else { return };
    let _holder = place.holder("job", &[]);
    let served = Served::start(&place, &[]);
    served.knows(1);
    let locks = served.get("/api/v1/locks").body;
    assert!(locks.contains("\"job\""), "{locks}");
}

#[test]
fn a_doctor_says_what_would_break_a_promise_and_makes_nothing() {
    let Some((place, server)) = place() else { return };
    let found = place.end(&["doctor"]);
    found.assert_ended(1);
    assert!(found.stdout.contains("fsync is off"), "{found:?}");
    assert!(found.stdout.contains("leasehold schema --install"), "{found:?}");
    let there = || server.query("SELECT to_regnamespace('leasehold') IS NOT NULL").unwrap();
    assert_eq!(there().trim(), "f");
    place.end(&["schema", "--install"]).assert_silent(0);
    assert_eq!(there().trim(), "t");
    assert!(!place.end(&["doctor"]).stdout.contains("leasehold schema"));
}

#[test]
fn a_free_lock_that_a_transaction_holds_back_is_shown_with_its_session() {
    let Some((place, server)) = place() else { return };
    place.end(&["run", "job", "--", "true"]).assert_silent(0);
    assert!(!place.end(&["show", "job"]).stderr.contains("held back"));
    let mut session = Command::new("psql");
    session.envs(server.environment()).args(["-X", "-q", "-A", "-t"]);
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut words = session.stdin.take().unwrap();
    writeln!(words, "BEGIN; SELECT leasehold.try_hold('job'), pg_backend_pid();").unwrap();
    let mut answer = String::new();
    BufReader::new(session.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let pid = answer.trim().strip_prefix("t|").unwrap();
    let shown = place.end(&["show", "job"]);
    shown.assert_ended(1);
    let by = format!("\"job\" is held back by process {pid} of the server, application \"psql\"");
    assert!(shown.stdout.contains("job is free") && shown.stderr.contains(&by), "{shown:?}");
    drop(words);
    session.wait().unwrap();
}

#[test]
fn the_schema_that_is_printed_is_that_which_is_installed() {
    let Some((place, server)) = place() else { return };
    for role in ["app", "odd \"role\""] {
        server.query(&format!("CREATE ROLE \"{}\" LOGIN", role.replace('"', "\"\""))).unwrap();
    }
    let words = ["schema", "--holder", "app", "--fencer", "odd \"role\""];
    let printed = place.end(&words);
    printed.assert_silent(0);
    server.query(&printed.stdout).unwrap();
    place.end(&["schema", "--install"]).assert_silent(0);
    let mut other = place;
    other.url = server.url_as("app");
    other.end(&["run", "job", "--", "true"]).assert_silent(0);
    other.url = "redis://127.0.0.1:1/".to_owned();
    other.end(&["schema"]).assert_failed(2, "needs no schema");
}
