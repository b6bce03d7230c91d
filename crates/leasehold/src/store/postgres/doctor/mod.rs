//! Checks for faults that would break a promise: of the server, the database, the role and the
//! connection to them.

pub(crate) mod connecting;
mod facts;
mod notifications;
mod role;
mod standbys;
mod upkeep;

use std::sync::Arc;

use leasehold_core::Error;
use leasehold_core::text::show_duration;

use self::facts::Facts;
use super::connection::{Sessions, error, on_keeper};
use super::held_back;
use super::inbox::Inboxes;
use super::options::{PostgresOptions, SslMode};
use super::schema::Statements;
use crate::store::finding::Finding;
use crate::store::warnings::Warnings;

/// Half of all transaction numbers that a database may use before it is vacuumed as a whole. At
/// this number, `autovacuum_freeze_max_age` has been exceeded for a long time.
const MANY_TRANSACTIONS: i64 = 1_000_000_000;

/// How old the oldest snapshot may be, in transactions, before it slows locks down.
const OLD_SNAPSHOT: i64 = 100_000;

/// The difference between the server's clock and ours from which on it is reported, in
/// microseconds: 1 s.
const CLOCKS_APART_US: i64 = 1_000_000;

/// The number of listening sessions from which on hand-overs are slow: 64.
const MANY_LISTENERS: i64 = 64;

/// The topic of the finding about the schema.
const SCHEMA: &str = "schema";

/// Checks the server of a URL. Changes nothing.
pub(crate) async fn examine(url: &str) -> Result<Vec<Finding>, Error> {
    let settings = PostgresOptions::from_url(url)?;
    settings.check()?;
    let sessions = Sessions::new(&settings)?;
    let inboxes = Inboxes::new(&settings, sessions.clone(), Arc::new(Warnings::default()))?;
    let found = on_keeper(Box::pin(async move {
        sessions.connect(&settings).await?;
        let facts = Facts::read(&sessions, &settings).await?;
        let place = &facts.place;
        let mut findings = vec![Finding::ok(place, "server", facts.version.clone())];
        findings.extend(of_server(&facts, &settings));
        findings.extend(of_memory(place, &sessions, &settings));
        findings.push(standbys::of_standbys(&facts, &settings));
        findings.extend(of_load(&facts));
        findings.extend(upkeep::of_upkeep(place, &sessions, &settings).await?);
        findings.extend(role::of_role(place, &sessions, &settings).await?);
        findings.push(notifications::of_notifications(place, &inboxes).await?);
        let statements = Statements::new(&settings);
        findings.push(of_schema(place, &sessions, &settings).await);
        findings.extend(of_names(place, &sessions, &statements).await);
        Ok(findings)
    }));
    Ok(found.await?)
}

/// The findings about the server's settings.
fn of_server(facts: &Facts, settings: &PostgresOptions) -> Vec<Finding> {
    vec![durability(facts), transport(facts, settings), clocks(facts)]
}

fn durability(facts: &Facts) -> Finding {
    let place = &facts.place;
    let off = [("fsync", facts.fsync), ("full_page_writes", facts.full_page_writes)];
    match off.iter().find(|(_, is_on)| !is_on) {
        Some((name, _)) => Finding::danger(
            place,
            "durability",
            format!("{name} is off"),
            "a crash of the machine forgets locks that are held, or damages the database",
            format!("set {name} = on"),
        ),
        None => Finding::ok(place, "durability", "each grant is on the disk before its answer"),
    }
}

/// The finding about what the server may have forgotten.
pub(super) fn of_memory(
    place: &str,
    sessions: &Sessions,
    settings: &PostgresOptions,
) -> Option<Finding> {
    if settings.quarantine().is_none() {
        let found = "off: after a promotion that has lost grants, others are let in";
        return Some(Finding::ok(place, "quarantine", found));
    }
    sessions.boot.was_asked().then(|| match sessions.boot.pause() {
        None => Finding::ok(place, "quarantine", "the server has forgotten nothing"),
        Some(left) => Finding::warning(
            place,
            "quarantine",
            format!("nothing new is granted for another {}", show_duration(left)),
            "the server may have forgotten who holds what, and programs that want a lock wait",
            "wait; or, only if no earlier lease can be valid, run `leasehold end-quarantine`",
        ),
    })
}

fn transport(facts: &Facts, settings: &PostgresOptions) -> Finding {
    let place = &facts.place;
    let mode = settings.servers.first().map_or(SslMode::VerifyFull, |it| settings.mode_for(it));
    let is_local = settings.servers.iter().all(super::options::Server::is_local);
    let remedy = "write sslmode=verify-full, with sslrootcert= if need be";
    match mode {
        SslMode::Disable if is_local => {
            Finding::ok(place, "tls", "the connection stays on this machine")
        }
        SslMode::Disable => Finding::danger(
            place,
            "tls",
            "nothing is encrypted",
            "others on the way may read and change what is sent",
            remedy,
        ),
        SslMode::Require => Finding::danger(
            place,
            "tls",
            "the server's certificate is not looked at",
            "anybody in between may answer for the server",
            remedy,
        ),
        SslMode::VerifyCa => Finding::warning(
            place,
            "tls",
            "the name in the server's certificate is not looked at",
            "another holder of a certificate may stand for the server",
            remedy,
        ),
        SslMode::VerifyFull => Finding::ok(
            place,
            "tls",
            "the connection is encrypted, and the server has the name in the URL",
        ),
    }
}

fn clocks(facts: &Facts) -> Finding {
    let (place, apart) = (&facts.place, facts.clock_apart_us.abs());
    let seconds = apart / 1_000_000;
    match apart > CLOCKS_APART_US {
        true => Finding::warning(
            place,
            "clock",
            format!("its clock and that of this machine are {seconds} s apart"),
            "where another server takes over, leases may overlap by what clocks differ",
            "run an NTP service on both",
        ),
        false => Finding::ok(place, "clock", "the server's clock agrees with this machine's"),
    }
}

/// The findings about other load on the server that may slow locks down.
fn of_load(facts: &Facts) -> Vec<Finding> {
    let place = &facts.place;
    let free = facts.max_connections - facts.sessions;
    let few = facts.max_connections / 10;
    let mut findings = vec![match free <= few {
        true => Finding::warning(
            place,
            "sessions",
            format!("{} of {} sessions are open", facts.sessions, facts.max_connections),
            "without a session no lock is taken, renewed or given back",
            "raise max_connections, or put a pooler before it",
        ),
        false => Finding::ok(place, "sessions", format!("{free} more sessions are available")),
    }];
    findings.push(match facts.listeners > MANY_LISTENERS {
        true => Finding::warning(
            place,
            "listeners",
            format!("{} sessions of leasehold listen", facts.listeners),
            "each notification wakes all of them, so hand-overs are slow",
            "let fewer processes wait, or let them wait in turn in one process",
        ),
        false => Finding::ok(
            place,
            "listeners",
            format!("{} sessions of leasehold listen", facts.listeners),
        ),
    });
    findings.push(match facts.oldest_snapshot > OLD_SNAPSHOT {
        true => Finding::warning(
            place,
            "snapshots",
            format!("a snapshot is {} transactions old", facts.oldest_snapshot),
            "no version of a row is removed meanwhile, and tables grow",
            "end what keeps it (pg_stat_activity, pg_prepared_xacts, pg_replication_slots), or set \
             idle_in_transaction_session_timeout",
        ),
        false => Finding::ok(place, "snapshots", "nothing keeps an old snapshot"),
    });
    findings.push(match facts.prepared > 0 {
        true => Finding::warning(
            place,
            "prepared transactions",
            format!("{} prepared transactions are open", facts.prepared),
            "a transaction that has passed a fence keeps its name from everybody",
            "COMMIT PREPARED or ROLLBACK PREPARED each (pg_prepared_xacts)",
        ),
        false => Finding::ok(place, "prepared transactions", "no prepared transaction is open"),
    });
    findings.push(match facts.transactions_used > MANY_TRANSACTIONS {
        true => Finding::warning(
            place,
            "transaction ids",
            format!("{} were used since the last vacuum", facts.transactions_used),
            "at two thousand million the database takes no more writes",
            "let autovacuum run: two are used for each acquire and release",
        ),
        false => Finding::ok(place, "transaction ids", "enough transaction ids are left"),
    });
    findings
}

/// The findings about names that are held back. There are none if the schema, or the right to its
/// functions, is missing: the finding about the schema says so.
async fn of_names(place: &str, sessions: &Sessions, statements: &Statements) -> Vec<Finding> {
    let Ok(found) = held_back::find((sessions, statements), None).await else { return Vec::new() };
    if found.is_empty() {
        return vec![Finding::ok(place, "fenced transactions", "no transaction holds a name back")];
    }
    let findings = found.iter().map(|holder| {
        Finding::warning(
            place,
            "fenced transactions",
            format!("{:?} is held back by {holder}", holder.name),
            "nobody is granted the name before that transaction has ended",
            "let it commit, or end it by pg_terminate_backend",
        )
    });
    findings.collect()
}

async fn of_schema(place: &str, sessions: &Sessions, settings: &PostgresOptions) -> Finding {
    let schema = &settings.schema;
    match Statements::new(settings).check(sessions).await {
        Ok(()) => Finding::ok(place, SCHEMA, format!("the schema {schema} is of this release")),
        Err(missing) if error::lacks_schema(&missing) => Finding::warning(
            place,
            SCHEMA,
            format!("the schema {schema} is not there, or not all of it"),
            "the first client that may make it does so; others are refused",
            "let the owner of the database run `leasehold schema --install`",
        ),
        Err(error) => Finding::danger(
            place,
            SCHEMA,
            error.to_string(),
            "nothing can be locked",
            format!("let the owner of the database run `leasehold schema --install` ({schema})"),
        ),
    }
}
