//! The program on a PostgreSQL database.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;

use leasehold_testkit::{Postgres, shared_postgres};

use crate::harness::{Background, Place};

/// A place on a private server, if PostgreSQL is installed.
fn place() -> Option<(Place, Postgres)> {
    let server = installed(Postgres::start().unwrap())?;
    Some((Place::at(server.url()), server))
}

/// A place with its own schema on a server that tests share while they run.
pub(crate) fn shared() -> Option<(Place, Arc<Postgres>)> {
    let (server, schema) = installed(shared_postgres().unwrap())?;
    Some((Place::at(format!("{}&schema={schema}", server.url())), server))
}

fn installed<T>(started: Option<T>) -> Option<T> {
    if started.is_none() {
        assert!(std::env::var_os("CI").is_none(), "PostgreSQL is not installed");
        println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
    }
    started
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
fn who_holds_a_free_lock_back_is_shown_and_told_to_those_who_want_it() {
    let Some((place, server)) = place() else { return };
    let mut holder = place.holder("job", &[]);
    let token = place.token("job").unwrap();
    let mut session = Command::new("psql");
    session.envs(server.environment()).args(["-X", "-q", "-A", "-t"]);
    let mut session = session.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut words = session.stdin.take().unwrap();
    writeln!(words, "BEGIN; SELECT leasehold.fence('job', {token}), pg_backend_pid();").unwrap();
    let mut answer = String::new();
    BufReader::new(session.stdout.take().unwrap()).read_line(&mut answer).unwrap();
    let pid = answer.trim().strip_prefix('|').unwrap();
    assert!(!place.end(&["show", "job"]).stdout.contains("held back"));
    holder.close_stdin();
    holder.end().assert_ended(0);
    let shown = place.end(&["show", "job"]);
    shown.assert_ended(1);
    let by = format!("job is held back by process {pid} of the server, application \"psql\"");
    assert!(shown.stdout.contains(&by), "{shown:?}");
    let by = place.show("job")["held_back"][0].as_str().map(str::to_owned);
    assert!(by.unwrap().starts_with(&format!("process {pid} of the server")));
    let by = format!("held back by process {pid} of the server");
    let busy = place.end(&["run", "job", "--no-wait", "--", "true"]);
    busy.assert_failed(75, &format!("job is busy: {by}"));
    let mut waiter = Background::start(place.shell("job", &[], "true"));
    let line = waiter.error_line();
    assert!(line.starts_with(&format!("leasehold: waiting for job, {by}")), "{line}");
    drop(words);
    session.wait().unwrap();
    waiter.end().assert_ended(0);
}

#[test]
fn the_schema_that_is_printed_is_that_which_is_installed() {
    let Some((place, server)) = place() else { return };
    for role in ["app", "odd \"role\""] {
        server.query(&format!("CREATE ROLE \"{}\" LOGIN", role.replace('"', "\"\""))).unwrap();
    }
    let words = ["schema", "--holder", "app", "--fencer", "odd \"role\"", "--releaser", "app"];
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
