//! Whether the server removes data that it no longer needs: old versions of rows, and its log.

use leasehold_core::StoreError;
use tokio_postgres::types::Type;

use crate::store::finding::{Finding, Topic};
use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::PostgresOptions;

/// The number of dead rows of a table, beyond its living ones, from which on locks get slower.
/// Autovacuum starts at a fiftieth of the living rows.
const MANY_DEAD_ROWS: i64 = 100_000;

/// The tables whose vacuum is off, and those with many dead rows.
const TABLES: &str = "SELECT current_setting('autovacuum')::bool \
        AND current_setting('track_counts')::bool, \
    ARRAY(SELECT c.relname::text FROM pg_class c, pg_options_to_table(c.reloptions) o \
        WHERE c.relnamespace = to_regnamespace($1) AND o.option_name = 'autovacuum_enabled' \
        AND NOT o.option_value::bool ORDER BY 1), \
    ARRAY(SELECT s.relname::text FROM pg_stat_all_tables s \
        WHERE s.schemaname = $1 AND s.n_dead_tup > s.n_live_tup + $2 ORDER BY 1)";

/// Replication slots that nobody uses, with how much of the log each keeps, in MiB.
const SLOTS: &str = "SELECT slot_name::text, \
    (coalesce(pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn), 0) / 1048576)::bigint \
    FROM pg_replication_slots WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL \
        OR restart_lsn IS NOT NULL AND current_setting('max_slot_wal_keep_size') = '-1') \
    ORDER BY 1";

/// Checks the vacuum of leasehold's tables, and replication slots.
pub(super) async fn of_upkeep(
    place: &str,
    sessions: &Sessions,
    settings: &PostgresOptions,
) -> Result<Vec<Finding>, StoreError> {
    let mut findings = of_tables(place, sessions, &settings.schema).await?;
    findings.extend(of_slots(place, sessions).await?);
    Ok(findings)
}

async fn of_tables(
    place: &str,
    sessions: &Sessions,
    schema: &str,
) -> Result<Vec<Finding>, StoreError> {
    let values = [(&schema as _, Type::TEXT), (&MANY_DEAD_ROWS as _, Type::INT8)];
    let rows = sessions.query(TABLES, &values).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let (is_on, off, dead): (bool, Vec<String>, Vec<String>) = (row.get(0), row.get(1), row.get(2));
    let topic = Topic(place, "autovacuum");
    let risk = "old versions of rows stay, so locks become slower and tables grow";
    let mut findings = Vec::new();
    if !is_on {
        let remedy = "set autovacuum = on and track_counts = on";
        findings.push(topic.warning("autovacuum is off", risk, remedy));
    }
    for table in off {
        let remedy = format!("ALTER TABLE {schema}.{table} RESET (autovacuum_enabled)");
        let found = format!("autovacuum is off for the table {schema}.{table}");
        findings.push(topic.warning(found, risk, remedy));
    }
    for table in dead {
        let remedy =
            format!("end what keeps them (see `snapshots`), and run VACUUM {schema}.{table}");
        let found = format!("the table {schema}.{table} has mostly dead rows, and many");
        findings.push(topic.warning(found, risk, remedy));
    }
    if findings.is_empty() {
        findings.push(topic.ok("old versions of rows are removed"));
    }
    Ok(findings)
}

async fn of_slots(place: &str, sessions: &Sessions) -> Result<Vec<Finding>, StoreError> {
    let topic = Topic(place, "replication slots");
    let rows = sessions.query(SLOTS, &[]).await?;
    let findings = rows.iter().map(|row| {
        let (slot, kept): (String, i64) = (row.get(0), row.get(1));
        topic.warning(
            format!("nobody uses the replication slot {slot}, which keeps {kept} MiB of the log"),
            "the log grows until the disk is full, and then the server stops",
            format!(
                "start its standby, or SELECT pg_drop_replication_slot('{slot}'), or set \
                 max_slot_wal_keep_size"
            ),
        )
    });
    let mut findings: Vec<_> = findings.collect();
    if findings.is_empty() {
        findings.push(topic.ok("no unused replication slot keeps anything"));
    }
    Ok(findings)
}
