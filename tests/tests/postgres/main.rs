//! The PostgreSQL store, on servers of Debian.
//!
//! Where PostgreSQL or PgBouncer is not installed, these tests are left out and say so; in CI they
//! fail.
#![cfg(test)]

mod at_commit;
mod bundles;
mod clocks;
mod conformance;
mod differential;
mod doctor;
mod faults;
mod fence;
mod full_log;
mod given_up;
mod network;
mod pages;
mod pooler;
mod quarantine;
mod roles;
mod sessions;
mod shortage;
mod standbys;
mod tls;

use std::sync::Arc;

use leasehold::error::StoreError;
use leasehold::store::PostgresOptions;
use leasehold::{Client, Error};
use leasehold_testkit::{PgBouncer, Postgres, harness, must, shared_postgres, worker};

#[test]
#[ignore = "a job of a test in `full_log`, for a separate process"]
fn job() {
    match worker::arguments().iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["full log", directory] => full_log::job(directory),
        ref other => panic!("no such job: {other:?}"),
    }
}

/// A server without flushes to the disk, if PostgreSQL is installed.
fn server() -> Option<Postgres> {
    let settings = ["fsync=off", "max_prepared_transactions=4"];
    installed("PostgreSQL", must(Postgres::start_with(&settings)))
}

fn pooled(sessions: u32) -> Option<(Postgres, PgBouncer)> {
    let server = server()?;
    let bouncer = installed("PgBouncer", must(PgBouncer::start(&server, sessions)))?;
    Some((server, bouncer))
}

/// The address of a server itself, as the option `listen` takes it.
fn direct(server: &Postgres) -> String {
    let url = server.url();
    let host = url.split_once('@').and_then(|(_, place)| place.split_once('/'));
    must(host.map(|(host, _)| host.replace('%', "%25")).ok_or("no host"))
}

/// The started program. If it is not installed, prints that; in CI, that is a failure.
fn installed<T>(what: &str, started: Option<T>) -> Option<T> {
    if started.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{what} is not installed");
        println!("skipped: {what} is not installed: `cargo xtask test` does that");
    }
    started
}

/// Changes a setting of a running server.
async fn set(server: &Postgres, setting: &str, value: &str) {
    must(server.query(&format!("ALTER SYSTEM SET {setting} = '{value}'")));
    must(server.query("SELECT pg_reload_conf()"));
    until(server, &format!("SELECT current_setting('{setting}') = '{value}'")).await;
}

async fn until(server: &Postgres, sql: &str) {
    harness::until(sql, async || must(server.query(sql)).trim() == "t").await;
}

#[track_caller]
fn refused<T>(done: Result<T, Error>) -> StoreError {
    let Err(Error::Store(error)) = done.map(drop) else { panic!("it was done, or is unknown") };
    error
}

/// The store that a URL names.
async fn open(url: &str) -> leasehold::store::Postgres {
    must(leasehold::store::Postgres::open(must(PostgresOptions::from_url(url))).await)
}

/// A new schema on a server that tests share while they run.
struct Database {
    server: Arc<Postgres>,
    schema: String,
}

impl Database {
    fn new() -> Option<Self> {
        let (server, schema) = installed("PostgreSQL", must(shared_postgres()))?;
        Some(Self { server, schema })
    }

    fn url(&self) -> String {
        format!("{}&schema={}", self.server.url(), self.schema)
    }

    async fn client(&self) -> Client {
        must(Client::connect(&self.url()).await)
    }

    async fn session(&self) -> tokio_postgres::Client {
        must(faults::session(&self.server).await)
    }

    /// The rows that a statement about the schema selects, as text; `@` stands for the schema.
    fn ask(&self, sql: &str) -> String {
        let answer = must(self.server.query(&sql.replace('@', &self.schema)));
        answer.trim().to_owned()
    }

    /// Waits until a statement about the schema selects `t`.
    async fn until(&self, sql: &str) {
        until(&self.server, &sql.replace('@', &self.schema)).await;
    }
}
