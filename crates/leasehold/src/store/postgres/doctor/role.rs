//! The role's settings for its own transactions, as far as they affect locks and fences.

use leasehold_core::StoreError;
use tokio_postgres::types::Type;

use crate::store::finding::{Finding, Topic};
use crate::store::postgres::connection::Sessions;
use crate::store::postgres::options::PostgresOptions;

/// Timeouts that end a request or a fence which takes longer, and the effect of each.
const TIMEOUTS: [(&str, &str); 3] = [
    ("lock_timeout", "a transaction fails if its fence waits for a step on the same name"),
    ("statement_timeout", "a slow step is begun again, and a slow look or list fails"),
    ("transaction_timeout", "the server ends the session of a slow step"),
];

/// The timeout of a transaction that hangs.
const HANGING: &str = "idle_in_transaction_session_timeout";

/// The statement that reads all settings: the role; its isolation level; whether it may write and
/// fence; timeouts in ms, NULL for timeouts that the server does not have.
const ROLE: &str = "SELECT quote_ident(current_user), \
    current_setting('default_transaction_isolation'), \
    current_setting('default_transaction_read_only')::bool, \
    EXISTS (SELECT FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace \
        WHERE n.nspname = $1 AND p.proname = 'fence' \
        AND has_schema_privilege(n.oid, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')), \
    ARRAY(SELECT s.setting::bigint \
        FROM unnest($2::text[]) WITH ORDINALITY AS asked (name, place) \
        LEFT JOIN pg_settings s USING (name) ORDER BY asked.place)";

/// Checks the settings of the role, which may be those of the database or of the server.
pub(super) async fn of_role(
    place: &str,
    sessions: &Sessions,
    settings: &PostgresOptions,
) -> Result<Vec<Finding>, StoreError> {
    let names: Vec<&str> = TIMEOUTS.iter().map(|(name, _)| *name).chain([HANGING]).collect();
    let values = [(&settings.schema as _, Type::TEXT), (&names as _, Type::TEXT_ARRAY)];
    let rows = sessions.query(ROLE, &values).await?;
    let Some(row) = rows.first() else { return Ok(Vec::new()) };
    let (role, level): (String, String) = (row.get(0), row.get(1));
    let mut findings = vec![isolation(place, &role, &level, row.get(2))];
    let spans: Vec<Option<i64>> = row.get(4);
    let limit = i64::try_from(settings.timeout.as_millis()).unwrap_or(i64::MAX);
    let topic = Topic(place, "timeouts");
    for ((name, risk), span) in TIMEOUTS.iter().zip(&spans) {
        if let Some(span) = span.filter(|span| (1..limit).contains(span)) {
            findings.push(topic.warning(
                format!("{name} is {span} ms for {role}, and a request may take {limit} ms"),
                *risk,
                format!("ALTER ROLE {role} SET {name} = 0, or write a shorter `timeout=`"),
            ));
        }
    }
    let is_endless = spans.last() == Some(&Some(0));
    if is_endless && row.get(3) {
        findings.push(topic.warning(
            format!("{HANGING} is 0 for {role}"),
            "a fenced transaction that hangs keeps its name from everybody without limit",
            format!("ALTER ROLE {role} SET {HANGING} = '1min'"),
        ));
    }
    if findings.len() == 1 {
        findings.push(topic.ok("the timeouts of the role are long enough"));
    }
    Ok(findings)
}

/// The finding about the isolation level: the quick paths need PostgreSQL's default.
fn isolation(place: &str, role: &str, level: &str, is_read_only: bool) -> Finding {
    let topic = Topic(place, "isolation");
    let (name, found, wanted) = match is_read_only {
        true => ("default_transaction_read_only", "read-only", "off"),
        false if level == "read committed" => {
            return topic.ok("transactions of the role are read committed");
        }
        false => ("default_transaction_isolation", level, "'read committed'"),
    };
    topic.warning(
        format!("transactions of {role} are {found} by default"),
        "an acquire, a renewal and a release take two round trips instead of one",
        format!("ALTER ROLE {role} SET {name} = {wanted}, and ask for more in each transaction"),
    )
}
