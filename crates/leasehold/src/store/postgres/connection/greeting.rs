//! The first request of a session: whether the server is a usable primary, and whose the schema is.

use leasehold_core::{StoreError, StoreErrorKind};
use tokio_postgres::Client;

use super::direct::is_direct;
use super::error;
use crate::store::postgres::options::PostgresOptions;

/// The oldest usable server: 15, which the tests run on.
const OLDEST: i32 = 150_000;

/// The first statement in each new session. The last column has the strangers that own a part of
/// the schema: neither this role, nor the owner of the database, nor a superuser. What they made
/// would use this role's rights.
const GREETING: &str = "SELECT pg_is_in_recovery(), current_setting('server_version_num')::int, \
    current_setting('server_encoding'), pg_backend_pid(), \
    ARRAY(SELECT DISTINCT r.rolname::text FROM pg_namespace n \
        CROSS JOIN LATERAL (SELECT n.nspowner \
            UNION ALL SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = n.oid \
            UNION ALL SELECT t.relowner FROM pg_class t WHERE t.relnamespace = n.oid \
        ) AS parts (owner) \
        JOIN pg_roles r ON r.oid = parts.owner \
        WHERE n.nspname = $1 AND NOT r.rolsuper AND r.rolname <> current_user \
            AND r.rolname <> 'pg_database_owner' AND r.oid <> \
                (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database()) \
        ORDER BY 1)";

/// Refuses a server that cannot keep locks, or cannot do so now. Returns whether nobody is in
/// between who could give the session to another client.
pub(super) async fn greet(
    client: &Client,
    server: &str,
    settings: &PostgresOptions,
) -> Result<bool, StoreError> {
    let schema = &settings.schema;
    let rows = client.query_typed_one(GREETING, &values![TEXT schema]).await;
    let row = rows.map_err(|failure| error::request(server, failure))?;
    let (is_standby, number, encoding): (bool, i32, String) = (row.get(0), row.get(1), row.get(2));
    let strangers: Vec<String> = row.get(4);
    let refused = |kind, text: String| Err(StoreError::new(kind, format!("{server}: {text}")));
    if number < OLDEST {
        let major = number / 10_000;
        let text = format!("it is PostgreSQL {major}, and the locks need 15 or newer");
        return refused(StoreErrorKind::Unsupported, text);
    }
    if encoding != "UTF8" {
        let text = format!("the database has the encoding {encoding}: give one with UTF8");
        return refused(StoreErrorKind::Unsupported, text);
    }
    if is_standby {
        let text = "it is a standby: name the primary, or both, HOST,HOST".to_owned();
        return refused(StoreErrorKind::Unreachable, text);
    }
    if !strangers.is_empty() {
        let text = format!(
            "the schema {schema}, or a part of it, belongs to {}, whose functions would run with \
             the rights of this role: let the owner of the database make the schema",
            strangers.join(", ")
        );
        return refused(StoreErrorKind::Denied, text);
    }
    let is_direct = is_direct(client, row.get(3)).await;
    if is_direct {
        let set = client.batch_execute(&own_settings(settings)).await;
        set.map_err(|failure| error::request(server, failure))?;
    }
    Ok(is_direct)
}

/// The settings of a session that belongs to this store alone. They override those of the role.
///
/// The server itself ends what takes longer than a request may take, unless it is a commit. A
/// transaction of a client that stops in its middle delays others by one second. Every statement
/// has its index, so that dead versions of rows cost nothing.
fn own_settings(settings: &PostgresOptions) -> String {
    let timeout = settings.timeout.as_millis();
    format!(
        "SET search_path = pg_catalog, pg_temp; SET default_transaction_isolation = \
         'read committed'; SET default_transaction_read_only = off; SET synchronous_commit = 'on'; \
         SET statement_timeout = {timeout}; SET lock_timeout = 0; \
         SET idle_in_transaction_session_timeout = '1s'; SET idle_session_timeout = '60s'; \
         SET enable_seqscan = off; SET enable_bitmapscan = off; SET jit = off; \
         SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; \
         SET plan_cache_mode = force_generic_plan"
    )
}
