//! The PostgreSQL store, on servers of Debian.
//!
//! Where PostgreSQL or PgBouncer is not installed, these tests are left out and say so; in CI they
//! fail.
#![cfg(test)]

mod conformance;

use leasehold_testkit::{PgBouncer, Postgres};

/// A server, unless there is none to be had.
fn server() -> Option<Postgres> {
    installed("PostgreSQL", Postgres::start().unwrap())
}

/// A server, and a pooler before it with so many sessions.
fn pooled(sessions: u32) -> Option<(Postgres, PgBouncer)> {
    let server = server()?;
    let bouncer = installed("PgBouncer", PgBouncer::start(&server, sessions).unwrap())?;
    Some((server, bouncer))
}

/// What was started; if it is not installed, that is said, and in CI it is a failure.
fn installed<T>(what: &str, started: Option<T>) -> Option<T> {
    if started.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{what} is not installed");
        println!("skipped: {what} is not installed: `cargo xtask test` does that");
    }
    started
}
