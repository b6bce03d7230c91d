//! The facts about a server that any role may read.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_core::{StoreError, StoreErrorKind};

use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::PostgresOptions;

/// The statement that reads all facts. Activity of other roles is hidden from a role without
/// `pg_read_all_stats`, and is not counted.
const FACTS: &str = "SELECT \
    'PostgreSQL ' || current_setting('server_version'), \
    current_setting('fsync')::bool, \
    current_setting('full_page_writes')::bool, \
    CASE current_setting('synchronous_standby_names') WHEN '' THEN 0 ELSE coalesce( \
        (regexp_match(current_setting('synchronous_standby_names'), \
            '^\\s*(?:first|any)?\\s*(\\d+)\\s*\\(', 'i'))[1]::bigint, 1) END, \
    (SELECT count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) FROM pg_stat_replication \
        HAVING count(*) = count(sync_state)), \
    (SELECT count(*) FROM pg_stat_replication), \
    current_setting('max_connections')::bigint, \
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
    (SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN lh\\_%'), \
    (SELECT coalesce(max(age(xmin)), 0)::bigint FROM ( \
        SELECT backend_xmin FROM pg_stat_activity WHERE pid <> pg_backend_pid() \
        UNION ALL SELECT xmin FROM pg_replication_slots \
        UNION ALL SELECT transaction FROM pg_prepared_xacts) AS kept (xmin)), \
    (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()), \
    (SELECT age(datfrozenxid)::bigint FROM pg_database WHERE datname = current_database()), \
    (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The facts that were read.
#[derive(Debug)]
pub(super) struct Facts {
    /// The servers of the URL. One of them was asked.
    pub(super) place: String,
    pub(super) version: String,
    pub(super) fsync: bool,
    pub(super) full_page_writes: bool,
    /// The number of synchronous standbys that a commit waits for.
    pub(super) standbys_wanted: i64,
    /// The number of synchronous standbys that are connected, if this role may know it.
    pub(super) standbys_there: Option<i64>,
    /// The number of standbys, synchronous or not.
    pub(super) followers: i64,
    pub(super) max_connections: i64,
    pub(super) sessions: i64,
    pub(super) listeners: i64,
    pub(super) oldest_snapshot: i64,
    pub(super) prepared: i64,
    pub(super) transactions_used: i64,
    /// The server's clock minus this machine's clock, which was read before and after the server's.
    pub(super) clock_apart_us: i64,
}

impl Facts {
    pub(super) async fn read(
        sessions: &Sessions,
        settings: &PostgresOptions,
    ) -> Result<Self, StoreError> {
        let before = wall_us();
        let rows = sessions.query(FACTS, &[]).await?;
        let after = wall_us();
        let row = rows.first().ok_or_else(|| {
            StoreError::new(StoreErrorKind::Corrupt, "the server gave no row for its settings")
        })?;
        let theirs: i64 = row.get(12);
        let place: Vec<_> = settings.servers.iter().map(ToString::to_string).collect();
        Ok(Self {
            place: place.join(","),
            version: row.get(0),
            fsync: row.get(1),
            full_page_writes: row.get(2),
            standbys_wanted: row.get(3),
            standbys_there: row.get(4),
            followers: row.get(5),
            max_connections: row.get(6),
            sessions: row.get(7),
            listeners: row.get(8),
            oldest_snapshot: row.get(9),
            prepared: row.get(10),
            transactions_used: row.get(11),
            clock_apart_us: theirs - theirs.clamp(before, after),
        })
    }
}

fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
