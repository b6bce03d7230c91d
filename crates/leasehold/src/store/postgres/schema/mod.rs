//! The tables and functions in the database: their text, their installation, and the statements
//! that call them.
//!
//! The names of functions end with the number of the layout.

use std::sync::Arc;

use leasehold_core::{StoreError, StoreErrorKind};

use super::connection::{Sessions, error};
use super::options::PostgresOptions;

/// The layout of this release.
const LAYOUT: i64 = 4;

/// The scripts that an installation runs in this order, once the schema exists.
const PARTS: [&str; 10] = [
    include_str!("tables.sql"),
    include_str!("layout.sql"),
    include_str!("clock.sql"),
    include_str!("boot.sql"),
    include_str!("open.sql"),
    include_str!("close.sql"),
    include_str!("sweep.sql"),
    include_str!("fence.sql"),
    include_str!("release_at_commit.sql"),
    include_str!("held_back.sql"),
];

/// The functions of roles that take locks.
pub(crate) const OF_HOLDERS: [&str; 6] =
    ["layout", "boot_4", "open_4", "close_4", "sweep_4", "held_back_4"];

/// The roles to which an installation gives rights, in addition to its owner.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PostgresRoles {
    /// Roles that take, list and revoke locks.
    pub holders: Vec<String>,
    /// Roles that call `fence` in their own transactions.
    pub fencers: Vec<String>,
    /// Roles that call `release_at_commit` in their own transactions, and so end leases.
    pub releasers: Vec<String>,
}

/// Checks for the functions, or installs them if there are none and the role may do so.
pub(crate) async fn prepare(sessions: &Arc<Sessions>) -> Result<(), StoreError> {
    let missing = match check(sessions).await {
        Err(missing) if error::lacks_schema(&missing) => missing,
        checked => return checked,
    };
    match install(sessions, &PostgresRoles::default()).await {
        Err(refused) if refused.kind() == StoreErrorKind::Denied => Err(StoreError::new(
            StoreErrorKind::Denied,
            format!(
                "{missing}, and this role may not make it ({refused}): let the owner of the \
                 database run `leasehold schema --install`, or print it by `leasehold schema`"
            ),
        )),
        installed => installed.and(check(sessions).await),
    }
}

pub(crate) async fn check(sessions: &Arc<Sessions>) -> Result<(), StoreError> {
    let rows = sessions.query("SELECT leasehold.layout()", &[]).await?;
    let found: Option<i64> = rows.first().and_then(|row| row.get(0));
    if found == Some(LAYOUT) {
        return Ok(());
    }
    let (found, schema) = (found.unwrap_or_default(), &*sessions.settings.schema);
    let text = format!(
        "the schema {schema} has the layout {found}, and this release of leasehold knows {LAYOUT}: \
         use one release everywhere, or another `schema=`"
    );
    Err(StoreError::new(StoreErrorKind::Version, text))
}

/// Installs the missing parts, and gives rights. Returns whether anything was made.
pub(crate) async fn install(
    sessions: &Arc<Sessions>,
    roles: &PostgresRoles,
) -> Result<bool, StoreError> {
    let checked = check(sessions).await;
    if let Some(failure) = checked.err().filter(|failure| !error::lacks_schema(failure)) {
        return Err(failure);
    }
    let taken = sessions.take().await?;
    // Only one installation runs at a time, and a second one finds the schema.
    taken.batch("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
    taken.batch("SELECT pg_advisory_xact_lock(hashtextextended('leasehold', 0::bigint))").await?;
    let schema = &*sessions.settings.schema;
    let there = format!(
        "SELECT to_regnamespace('{schema}') IS NOT NULL, \
         to_regclass('{schema}.number') IS NOT NULL"
    );
    let rows = taken.plain(&there, &[]).await?;
    let (has_schema, has_tables) =
        rows.first().map_or((false, false), |row| (row.get(0), row.get(1)));
    let begin = if has_schema { String::new() } else { format!("CREATE SCHEMA {schema};\n") };
    let missing = if has_tables { String::new() } else { parts(schema) };
    let text = [begin, missing, grants(schema, roles)].concat();
    taken.batch(&text).await?;
    taken.batch("COMMIT").await.map_err(StoreError::maybe_executed)?;
    taken.give_back();
    Ok(!has_tables)
}

impl PostgresOptions {
    /// The SQL that installs the schema and gives rights to roles, for the owner of the database to
    /// read and run: one transaction.
    pub fn script(&self, roles: &PostgresRoles) -> String {
        // Names of schemas have only small letters, digits and `_`; names of roles are quoted.
        let (schema, parts) = (&self.schema, parts(&self.schema));
        let grants = grants(schema, roles);
        format!("BEGIN;\n\nCREATE SCHEMA {schema};\n\n{parts}{grants}\nCOMMIT;\n")
    }
}

/// Until further rights are given, a role with the right to the schema cannot call its functions.
/// Each of them finds rows by their index only.
fn parts(schema: &str) -> String {
    let text = PARTS.join("\n").replace("AS_OWNER", include_str!("as_owner.sql").trim_end());
    let text = text.replace("leasehold.", &format!("{schema}."));
    format!("{text}\nREVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM PUBLIC;\n")
}

fn grants(schema: &str, roles: &PostgresRoles) -> String {
    let execute = |name: &&str| format!("EXECUTE ON FUNCTION {schema}.{name}");
    let mut of_holders: Vec<_> = OF_HOLDERS.iter().map(execute).collect();
    of_holders.push(format!("SELECT, UPDATE ON TABLE {schema}.lease"));
    of_holders.push(format!("SELECT ON TABLE {schema}.boot, {schema}.released"));
    let of = [
        (&roles.holders, of_holders),
        (&roles.fencers, vec![execute(&"fence")]),
        (&roles.releasers, vec![execute(&"release_at_commit")]),
    ];
    let mut text = String::new();
    for (roles, mut rights) in of {
        rights.push(format!("USAGE ON SCHEMA {schema}"));
        for role in roles {
            let role = role.replace('"', "\"\"");
            text.extend(rights.iter().map(|right| format!("GRANT {right} TO \"{role}\";\n")));
        }
    }
    text
}
