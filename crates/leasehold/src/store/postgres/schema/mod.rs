//! The tables and functions in the database: their text, their installation, and the statements
//! that call them.
//!
//! The names of functions end with the number of the layout, so that two releases can share a
//! schema. Only unnamed statements call them, so no pooler has to remember a prepared statement.

use std::fmt::Write as _;

use leasehold_core::{StoreError, StoreErrorKind};

use super::connection::{Sessions, error};
use super::options::PostgresOptions;

/// The layout of this release.
const LAYOUT: i64 = 2;

/// The scripts that an installation runs in this order, once the schema exists.
const PARTS: [&str; 13] = [
    include_str!("tables.sql"),
    include_str!("layout.sql"),
    include_str!("clock.sql"),
    include_str!("mutex.sql"),
    include_str!("boot.sql"),
    include_str!("open.sql"),
    include_str!("close.sql"),
    include_str!("read.sql"),
    include_str!("list.sql"),
    include_str!("sweep.sql"),
    include_str!("fence.sql"),
    include_str!("release_at_commit.sql"),
    include_str!("held_back.sql"),
];

/// The functions that are granted to roles that take locks.
const OF_HOLDERS: [&str; 8] = [
    "layout()",
    "boot_2(bigint, boolean)",
    "open_2(text[])",
    "close_2(text[], text[], text[], bigint[], bigint[], bigint[], bigint[], bigint[], boolean)",
    "read_2(text)",
    "list_2(text, text, bigint, boolean)",
    "sweep_2()",
    "held_back_2(text[])",
];
const OF_FENCERS: [&str; 2] = ["fence(text, bigint)", "release_at_commit(text, bigint)"];

/// The functions that only other functions call.
const INNER: [&str; 6] = [
    "clock_2()",
    "mutex_2(text)",
    "hold_2(text)",
    "bucket_2(text)",
    "history_2()",
    "is_unfenced_2(text)",
];

/// The names of the functions that a role needs to take locks.
pub(crate) fn functions_of_holders() -> impl Iterator<Item = &'static str> {
    OF_HOLDERS.iter().filter_map(|function| Some(function.split_once('(')?.0))
}

/// For how long a transaction may be idle between the halves of a step: 1 s. A client that stops
/// there delays others no longer than that.
const MAX_IDLE: &str = "1s";

/// The roles to which an installation gives rights, in addition to its owner.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct PostgresRoles {
    /// Roles that take, list and revoke locks.
    pub holders: Vec<String>,
    /// Roles that call `fence` in their own transactions.
    pub fencers: Vec<String>,
}

impl PostgresRoles {
    /// No role but the owner.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more role that takes, lists and revokes locks.
    #[must_use]
    pub fn holder(mut self, role: impl Into<String>) -> Self {
        self.holders.push(role.into());
        self
    }

    /// One more role that calls `fence` in its own transactions.
    #[must_use]
    pub fn fencer(mut self, role: impl Into<String>) -> Self {
        self.fencers.push(role.into());
        self
    }
}

/// The statements that a store sends.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) begin: String,
    pub(crate) open: String,
    pub(crate) close: String,
    pub(crate) read: String,
    pub(crate) list: String,
    pub(crate) sweep: String,
    pub(crate) held_back: String,
    layout: String,
    schema: String,
}

impl Statements {
    pub(crate) fn new(settings: &PostgresOptions) -> Self {
        let PostgresOptions { schema, timeout, .. } = settings;
        let timeout = timeout.as_millis();
        Self {
            // These settings override the role's own. If a client has given up, its request must
            // not go on waiting in the server.
            begin: format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
                 SET LOCAL idle_in_transaction_session_timeout = '{MAX_IDLE}'; \
                 SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '{timeout}ms'; \
                 SET LOCAL synchronous_commit = 'on'"
            ),
            open: format!("SELECT * FROM {schema}.open_2($1)"),
            close: format!("SELECT {schema}.close_2($1, $2, $3, $4, $5, $6, $7, $8, $9)"),
            read: format!("SELECT * FROM {schema}.read_2($1)"),
            list: format!("SELECT * FROM {schema}.list_2($1, $2, $3, $4)"),
            sweep: format!("SELECT {schema}.sweep_2()"),
            held_back: format!("SELECT * FROM {schema}.held_back_2($1)"),
            layout: format!("SELECT {schema}.layout()"),
            schema: schema.clone(),
        }
    }

    /// Checks for the functions, or installs them if there are none and the role may do so.
    pub(crate) async fn prepare(&self, sessions: &Sessions) -> Result<(), StoreError> {
        let missing = match self.check(sessions).await {
            Err(missing) if error::lacks_schema(&missing) => missing,
            checked => return checked,
        };
        match self.install(sessions, &PostgresRoles::default()).await {
            Ok(_) => self.check(sessions).await,
            Err(refused) if refused.kind() == StoreErrorKind::Denied => Err(StoreError::new(
                StoreErrorKind::Denied,
                format!(
                    "{missing}, and this role may not make it ({refused}): let the owner of the \
                     database run `leasehold schema --install`, or print it by `leasehold schema`"
                ),
            )),
            Err(other) => Err(other),
        }
    }

    pub(crate) async fn check(&self, sessions: &Sessions) -> Result<(), StoreError> {
        let rows = sessions.query(&self.layout, &[]).await?;
        let found: Option<i64> = rows.first().and_then(|row| row.get(0));
        match found {
            Some(LAYOUT) => Ok(()),
            found => {
                let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
                let schema = &self.schema;
                let text = format!(
                    "the schema {schema} has the layout {found}, and this release of leasehold \
                     knows {LAYOUT}: use one release everywhere, or another `schema=`"
                );
                Err(StoreError::new(StoreErrorKind::Version, text))
            }
        }
    }

    /// Installs the missing parts, and gives rights. Returns whether anything was made.
    pub(crate) async fn install(
        &self,
        sessions: &Sessions,
        roles: &PostgresRoles,
    ) -> Result<bool, StoreError> {
        let mut taken = sessions.take(sessions.give_up()).await?;
        // Only one installation runs at a time, and a second one finds the schema.
        taken.batch("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE").await?;
        taken
            .batch("SELECT pg_advisory_xact_lock(hashtextextended('leasehold schema', 0))")
            .await?;
        let schema = &self.schema;
        let there = format!(
            "SELECT to_regnamespace('{schema}') IS NOT NULL, \
             EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = '{schema}' AND c.relname = 'lock')"
        );
        let rows = taken.query(&there, &[]).await?;
        let (has_schema, has_tables) =
            rows.first().map_or((false, false), |row| (row.get(0), row.get(1)));
        let mut text = String::new();
        if !has_schema {
            text.push_str(&create_schema(schema));
        }
        if !has_tables {
            text.push_str(&parts(schema));
        }
        text.push_str(&grants(schema, roles));
        taken.batch(&text).await?;
        taken.batch("COMMIT").await.map_err(StoreError::maybe_executed)?;
        taken.give_back();
        Ok(!has_tables)
    }
}

/// The whole text of an installation, which others may read, change or run.
///
/// Names of schemas have only small letters, digits and `_`; names of roles are quoted.
pub(crate) fn script(schema: &str, roles: &PostgresRoles) -> String {
    format!(
        "BEGIN;\n\n{}\n{}{}\nCOMMIT;\n",
        create_schema(schema),
        parts(schema),
        grants(schema, roles)
    )
}

fn create_schema(schema: &str) -> String {
    format!("CREATE SCHEMA {schema};\n")
}

fn parts(schema: &str) -> String {
    let mut text = PARTS.join("\n").replace("leasehold.", &format!("{schema}."));
    // Until further rights are given, a role with the right to the schema cannot call its
    // functions.
    let functions = OF_HOLDERS.iter().chain(&OF_FENCERS).chain(&INNER);
    for function in functions {
        // Writing into a string never fails.
        let _ = write!(text, "\nREVOKE ALL ON FUNCTION {schema}.{function} FROM PUBLIC;");
    }
    text.push('\n');
    text
}

fn grants(schema: &str, roles: &PostgresRoles) -> String {
    let mut text = String::new();
    let of = [(&roles.holders, &OF_HOLDERS[..]), (&roles.fencers, &OF_FENCERS[..])];
    for (roles, functions) in of {
        for role in roles {
            let role = format!("\"{}\"", role.replace('"', "\"\""));
            let _ = writeln!(text, "GRANT USAGE ON SCHEMA {schema} TO {role};");
            for function in functions {
                let _ = writeln!(text, "GRANT EXECUTE ON FUNCTION {schema}.{function} TO {role};");
            }
        }
    }
    text
}
