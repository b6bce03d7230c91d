//! Checks for faults that would break a promise: of the server, the database, the role and the
//! connection to them.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::text::show_duration;
use leasehold_core::{Clock as _, Error, StoreError};
use tokio_postgres::Row;

use super::connection::{Sessions, error, on_keeper};
use super::options::{PostgresOptions, SslMode};
use super::record::damaged;
use super::schema::{self, OF_HOLDERS};
use crate::clock::SystemClock;
use crate::store::finding::{Finding, Topic};
use crate::store::options::Server;
use crate::store::url::joined;

/// The difference between the server's clock and ours from which on it is reported: 1 s.
const CLOCKS_APART: Duration = Duration::from_secs(1);

/// The facts that any role may read: the version; settings; the number of synchronous standbys that
/// a commit waits for, and how many are there, if the role may know it; all standbys; the clock.
const FACTS: &str = "SELECT current_setting('server_version'), \
    current_setting('fsync')::bool AND current_setting('full_page_writes')::bool, \
    CASE current_setting('synchronous_standby_names') WHEN '' THEN 0 ELSE coalesce( \
        (regexp_match(current_setting('synchronous_standby_names'), \
            '^ *(?:first|any)? *([0-9]+) *[(]', 'i'))[1]::bigint, 1) END, \
    CASE WHEN bool_and(sync_state IS NOT NULL) IS NOT FALSE \
        THEN count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) END, count(*), \
    (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint FROM pg_stat_replication";

/// The functions that the role may not call, and its name. The schema is the first parameter.
const RIGHTS: &str = "SELECT pg_catalog.quote_ident(current_user), ARRAY(SELECT p.proname::text \
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
    WHERE n.nspname = $1 AND p.proname = ANY ($2) \
    AND NOT (has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')) \
    ORDER BY 1)";

/// Checks the server of a URL. Changes nothing.
pub(crate) async fn examine(settings: PostgresOptions) -> Result<Vec<Finding>, Error> {
    let sessions = Sessions::new(settings)?;
    let found = on_keeper(Box::pin(async move {
        sessions.connect().await?;
        let mut findings = of_server(&sessions).await?;
        findings.push(of_schema(&sessions).await?);
        Ok(findings)
    }));
    Ok(found.await?)
}

/// The findings about the server and its settings, for connecting, too.
pub(crate) async fn of_server(sessions: &Arc<Sessions>) -> Result<Vec<Finding>, StoreError> {
    let settings = &sessions.settings;
    let before = SystemClock::new().wall_us();
    let rows = sessions.query(FACTS, &[]).await?;
    let after = SystemClock::new().wall_us();
    let row = rows.first().ok_or_else(|| damaged("an answer"))?;
    let version: String = row.get(0);
    let place = joined(&settings.servers);
    let persistence = Topic(&place, "persistence");
    let clock = row.get::<_, i64>(5).unsigned_abs();
    let apart = Duration::from_micros(clock.abs_diff(clock.clamp(before, after)));
    let mut findings = vec![
        Topic(&place, "version").ok(format!("the server is PostgreSQL {version}, a primary")),
        transport(Topic(&place, "reachable"), settings),
        match row.get(1) {
            true => persistence.ok("each grant is on the disk before its answer"),
            false => persistence.danger(
                "fsync is off, or full_page_writes",
                "a crash of the machine forgets locks that are held, or damages the database",
                "set fsync = on and full_page_writes = on",
            ),
        },
        standbys(Topic(&place, "replicas"), settings, row),
        match apart > CLOCKS_APART {
            true => Topic(&place, "clock").warning(
                format!("its clock and that of this machine are {} s apart", apart.as_secs()),
                "where another server takes over, leases may overlap by what clocks differ",
                "run NTP on both",
            ),
            false => Topic(&place, "clock").ok("the server's clock agrees with this machine's"),
        },
    ];
    if let Some(left) = sessions.boot.pause() {
        findings.push(persistence.warning(
            format!("nothing new is granted for another {}", show_duration(left)),
            "the server may have forgotten who holds what, and programs that want a lock wait",
            "wait; or, only if no earlier lease can be valid, run `leasehold end-quarantine`",
        ));
    }
    Ok(findings)
}

/// The finding about who may be in between.
fn transport(topic: Topic<'_>, settings: &PostgresOptions) -> Finding {
    let mode = settings.servers.first().map_or(SslMode::VerifyFull, |it| settings.mode_for(it));
    let risk = "others on the way may stand for the server";
    let remedy = "write sslmode=verify-full, with sslrootcert= if need be";
    match mode {
        SslMode::Disable if settings.servers.iter().all(Server::is_local) => {
            topic.ok("the connection stays on this machine")
        }
        SslMode::Disable => topic.danger("nothing is encrypted", risk, remedy),
        SslMode::Require => topic.danger("no certificate is checked", risk, remedy),
        SslMode::VerifyCa => topic.warning("no name in a certificate is checked", risk, remedy),
        SslMode::VerifyFull => topic.ok("the connection is encrypted to the named server"),
    }
}

/// The finding about what a promotion would forget.
fn standbys(topic: Topic<'_>, settings: &PostgresOptions, row: &Row) -> Finding {
    let (wanted, there, followers): (i64, Option<i64>, i64) = (row.get(2), row.get(3), row.get(4));
    let found = format!("standbys: {followers}; that a grant waits for: {wanted}");
    match wanted {
        1.. if there.is_some_and(|there| there < wanted) => topic.danger(
            format!("{found}, and fewer are there"),
            "nothing is locked meanwhile",
            "start them, or take them out of synchronous_standby_names",
        ),
        0 if followers > 0 && settings.quarantine().is_none() => topic.warning(
            found,
            "a promotion forgets the last grants, and others are let in",
            "leave quarantine=off out, or set synchronous_standby_names",
        ),
        _ => topic.ok(found),
    }
}

/// The finding about the schema, and about its functions that the role may not call.
async fn of_schema(sessions: &Arc<Sessions>) -> Result<Finding, StoreError> {
    let (place, name) = (joined(&sessions.settings.servers), &*sessions.settings.schema);
    let topic = Topic(&place, "rights");
    let functions = &OF_HOLDERS[..];
    let values = values![TEXT name, TEXT_ARRAY functions];
    let rows = sessions.query(RIGHTS, &values).await?;
    let lacking = rows.first().map(|row| (row.get(0), row.get(1)));
    let (role, missing): (String, Vec<String>) = lacking.unwrap_or_default();
    if !missing.is_empty() {
        let found = format!("{role} may not call {} in {name}", missing.join(", "));
        let remedy = format!("let the owner run `leasehold schema --holder {role} --install`");
        return Ok(topic.danger(found, "locking fails", &remedy));
    }
    let remedy = "let the owner of the database run `leasehold schema --install`";
    Ok(match schema::check(sessions).await {
        Ok(()) => topic.ok(format!("{role} may use the schema {name}, of this release")),
        Err(missing) if error::lacks_schema(&missing) => {
            let found = format!("the schema {name} is not there, or not all of it");
            topic.warning(found, "roles that may not make it are refused", remedy)
        }
        Err(error) => topic.danger(error.to_string(), "nothing can be locked", remedy),
    })
}
