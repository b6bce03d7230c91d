//! Turns failures of the driver and of the server into errors of the store.

use std::error::Error as _;
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// The longest text of a server that an error shows. The rest is in the server's own log.
const MAX_SAID: usize = 300;

/// The code of a step that was called at another isolation level.
const WRONG_ISOLATION: &str = "LH002";

/// The code at the end of a step whose record has changed meanwhile.
const NO_MUTEX: &str = "LH003";

/// The code of a session that the server has ended because a transaction took longer than
/// `transaction_timeout`. The driver has no name for it.
const TRANSACTION_TIMEOUT: &str = "25P04";

/// Turns the driver's error for a request into an error of the store. The sender of the request
/// decides whether it may have been executed.
pub(crate) fn request(server: &str, error: Error) -> StoreError {
    let (kind, text) = match error.as_db_error() {
        Some(refusal) => (kind(refusal), said(refusal)),
        None => (StoreErrorKind::Unreachable, causes(&error)),
    };
    StoreError::new(kind, format!("{server}: {text}")).with_source(error)
}

/// Like [`request`], for a session that could not be opened.
pub(crate) fn opening(server: &str, error: Error) -> StoreError {
    let is_refusal = error.as_db_error().is_some();
    let opened = request(server, error);
    match is_refusal {
        true => opened,
        false => StoreError::new(
            StoreErrorKind::Unreachable,
            format!(
                "{opened} (is a PostgreSQL server there, with or without TLS as `sslmode` says?)"
            ),
        )
        .with_source(opened),
    }
}

pub(crate) fn too_slow(server: &str, what: &str, limit: Duration) -> StoreError {
    let text = format!("{server}: {what} took longer than {limit:?}");
    StoreError::new(StoreErrorKind::Timeout, text)
}

/// Whether the server has certainly not executed the request, and could execute it if it is sent
/// again now.
pub(crate) fn is_worth_another_try(error: &StoreError) -> bool {
    let code = code(error);
    code.is_some_and(|code| {
        let transient = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::QUERY_CANCELED,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::FEATURE_NOT_SUPPORTED,
            SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        ];
        transient.contains(code) || [NO_MUTEX, TRANSACTION_TIMEOUT].contains(&code.code())
    })
}

/// Whether the session had ended before or while the request was read: it was idle for too long,
/// somebody ended it, or it was lost with its server or its network.
pub(crate) fn is_broken(error: &StoreError) -> bool {
    let Some(source) = error.source().and_then(|source| source.downcast_ref::<Error>()) else {
        return false;
    };
    source.code().is_none_or(|code| code.code().starts_with("57P"))
}

/// Whether the server has become a standby, because another server takes over.
pub(crate) fn is_standby(error: &StoreError) -> bool {
    // The second code comes from the beginning of a step, and from no other statement of ours.
    let said = [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::FEATURE_NOT_SUPPORTED];
    code(error).is_some_and(|code| said.contains(code))
}

/// Whether the schema, or a part of it, is missing.
pub(crate) fn lacks_schema(error: &StoreError) -> bool {
    let missing =
        [SqlState::INVALID_SCHEMA_NAME, SqlState::UNDEFINED_FUNCTION, SqlState::UNDEFINED_TABLE];
    code(error).is_some_and(|code| missing.contains(code))
}

/// Whether the server has refused the request, so that nothing of it was done.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    code(error).is_some()
}

/// The server's code for an error.
fn code(error: &StoreError) -> Option<&SqlState> {
    error.source().and_then(|source| source.downcast_ref::<Error>()).and_then(Error::code)
}

fn kind(refusal: &DbError) -> StoreErrorKind {
    let code = refusal.code();
    match &code.code()[..2] {
        _ if [SqlState::INSUFFICIENT_PRIVILEGE].contains(code) => StoreErrorKind::Denied,
        _ if [
            SqlState::TOO_MANY_CONNECTIONS,
            SqlState::READ_ONLY_SQL_TRANSACTION,
            SqlState::FEATURE_NOT_SUPPORTED,
        ]
        .contains(code) =>
        {
            StoreErrorKind::Unreachable
        }
        _ if *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => StoreErrorKind::Timeout,
        _ if [WRONG_ISOLATION, NO_MUTEX, TRANSACTION_TIMEOUT].contains(&code.code()) => {
            StoreErrorKind::Timeout
        }
        "08" => StoreErrorKind::Unreachable,
        "28" => StoreErrorKind::Denied,
        "40" | "55" => StoreErrorKind::Timeout,
        "53" | "54" => StoreErrorKind::Full,
        "57" if *code == SqlState::QUERY_CANCELED => StoreErrorKind::Timeout,
        "57" | "58" => StoreErrorKind::Unreachable,
        "XX" => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unsupported,
    }
}

/// The server's message on one short line, with the code that its manual explains.
fn said(refusal: &DbError) -> String {
    let text: String = refusal.message().chars().take(MAX_SAID).collect();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let remedy = match refusal.code() {
        code if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            ": print what a role needs by `leasehold schema --holder ROLE`, for the owner to run"
        }
        code if *code == SqlState::TOO_MANY_CONNECTIONS => {
            ": raise max_connections, or put a pooler before it"
        }
        code if *code == SqlState::INVALID_CATALOG_NAME => {
            ": write the database behind the host, postgres://USER@HOST/DATABASE"
        }
        _ => "",
    };
    format!("{text} ({}){remedy}", refusal.code().code())
}

/// The text of a driver's error and of its causes.
fn causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
