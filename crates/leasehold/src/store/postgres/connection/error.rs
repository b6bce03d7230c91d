//! Turns failures of the driver and of the server into errors of the store.

use std::error::Error as _;
use std::iter::successors;
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// The longest text of a server that an error shows. The rest is in the server's own log.
const MAX_SAID: usize = 300;

/// The class of codes for a session that was cut. A pooler reports with such a code that its own
/// session with the server has ended, whatever the server did with the request.
const CUT: &str = "08";

/// The codes after which the same request may succeed: a conflict, a deadlock, a cancelled request,
/// a transaction that was idle or took too long, and a record that has changed meanwhile.
const PASSING: [&str; 6] = ["40001", "40P01", "57014", "25P03", "25P04", "LH003"];

/// Faults with a remedy: a sign in the text of the driver, the server or a pooler, and the kind.
const REMEDIES: [(&str, StoreErrorKind, &str); 7] = [
    ("password missing", StoreErrorKind::Denied, ": set LEASEHOLD_PASSWORD or put it in the URL"),
    ("server does not support TLS", StoreErrorKind::Unsupported, ": write sslmode=disable"),
    ("statement pooling mode", StoreErrorKind::Unsupported, ": set pool_mode = transaction"),
    ("(42501)", StoreErrorKind::Denied, ": the owner runs `leasehold schema --holder ROLE`"),
    ("(53300)", StoreErrorKind::Unreachable, ": raise max_connections, or put a pooler before it"),
    ("(42601)", StoreErrorKind::Unsupported, ": SQL knows this word: choose another `schema=`"),
    ("(3D000)", StoreErrorKind::Unsupported, ": write postgres://USER@HOST/DATABASE"),
];

/// Turns the driver's error for a request into an error of the store. The sender of the request
/// decides whether it may have been executed.
pub(crate) fn request(server: &str, error: Error) -> StoreError {
    let (kind, text) = match error.as_db_error() {
        Some(refusal) => (kind(refusal), said(refusal)),
        None => {
            let causes = successors(error.source(), |cause| (*cause).source());
            let text = causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"));
            (StoreErrorKind::Unreachable, one_line(&text))
        }
    };
    let remedy = REMEDIES.iter().find(|(sign, ..)| text.contains(sign));
    let (kind, remedy) = remedy.map_or((kind, ""), |(_, kind, remedy)| (*kind, *remedy));
    StoreError::new(kind, format!("{server}: {text}{remedy}")).with_source(error)
}

pub(crate) fn too_slow(server: &str, what: &str, limit: Duration) -> StoreError {
    let text = format!("{server}: {what} took longer than {limit:?}");
    StoreError::new(StoreErrorKind::Timeout, text)
}

/// Whether the server has certainly not executed the request, and could execute it if it is sent
/// again now.
pub(crate) fn is_worth_another_try(error: &StoreError) -> bool {
    PASSING.contains(&code(error)) || is_standby(error)
}

/// Whether the session had ended before or while the request was read: it was idle for too long,
/// somebody ended it, or it was lost with its server or its network.
pub(crate) fn is_broken(error: &StoreError) -> bool {
    let code = code(error);
    let is_of_driver = matches!(error.source(), Some(source) if source.is::<Error>());
    is_of_driver && code.is_empty() || code.starts_with(CUT) || code.starts_with("57P")
}

/// Whether the server has become a standby: it only reads, or does not know how each step begins.
pub(crate) fn is_standby(error: &StoreError) -> bool {
    matches!(code(error), "25006" | "0A000")
}

/// Whether the schema, or a part of it, is missing.
pub(crate) fn lacks_schema(error: &StoreError) -> bool {
    ["3F000", "42883", "42P01"].contains(&code(error))
}

/// Whether the server has refused the request, so that nothing of it was done.
pub(crate) fn is_refusal(error: &StoreError) -> bool {
    !code(error).is_empty() && !code(error).starts_with(CUT)
}

/// The server's code for an error; empty if the error is not the server's.
fn code(error: &StoreError) -> &str {
    let error = error.source().and_then(|source| source.downcast_ref::<Error>());
    error.and_then(Error::code).map_or("", SqlState::code)
}

fn kind(refusal: &DbError) -> StoreErrorKind {
    match refusal.code().code() {
        // The server is a standby.
        "25006" | "0A000" => StoreErrorKind::Unreachable,
        // The last two are of steps: at another isolation level, or with a record that has changed.
        "25P03" | "25P04" | "57014" | "LH003" => StoreErrorKind::Timeout,
        code => match &code[..2] {
            CUT | "57" | "58" => StoreErrorKind::Unreachable,
            "28" => StoreErrorKind::Denied,
            "40" | "55" => StoreErrorKind::Timeout,
            "53" | "54" => StoreErrorKind::Full,
            "XX" => StoreErrorKind::Corrupt,
            _ => StoreErrorKind::Unsupported,
        },
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The server's message on one short line, with the code that its manual explains.
fn said(refusal: &DbError) -> String {
    let text: String = refusal.message().chars().take(MAX_SAID).collect();
    format!("{} ({})", one_line(&text), refusal.code().code())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio_postgres::config::SslMode;
    use tokio_postgres::{Config, NoTls};

    use super::*;

    /// The bytes of a message of the server.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    /// The error for a request that is answered with this code.
    async fn answered(code: &str) -> StoreError {
        answered_with(code, "server conn crashed?").await
    }

    async fn answered_with(code: &str, why: &str) -> StoreError {
        let (ours, mut theirs) = duplex(1024);
        let answer = format!("SFATAL\0VFATAL\0C{code}\0M{why}\0\0");
        let serving = async {
            let mut request = [0; 1024];
            assert_ne!(theirs.read(&mut request).await.unwrap(), 0);
            let welcome = [message(b'R', &[0; 4]), message(b'Z', b"I")].concat();
            theirs.write_all(&welcome).await.unwrap();
            assert_ne!(theirs.read(&mut request).await.unwrap(), 0);
            theirs.write_all(&message(b'E', answer.as_bytes())).await.unwrap();
        };
        let asking = async {
            let mut config = Config::new();
            config.user("app").ssl_mode(SslMode::Disable);
            let (client, connection) = config.connect_raw(ours, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("COMMIT").await.unwrap_err()
        };
        let ((), failure) = tokio::join!(serving, asking);
        request("pooler", failure)
    }

    #[tokio::test]
    async fn a_pooler_that_reports_the_loss_of_its_own_session_has_refused_nothing() {
        for code in ["08P01", "08006"] {
            let lost = answered(code).await;
            assert!(is_broken(&lost) && !is_refusal(&lost), "{lost}");
        }
        let ended = answered("57P01").await;
        assert!(is_broken(&ended) && is_refusal(&ended), "{ended}");
        let refused = answered("42501").await;
        assert!(!is_broken(&refused) && is_refusal(&refused), "{refused}");
    }

    /// The error for a login that is answered with these bytes.
    async fn greeted(mode: SslMode, answer: &[u8]) -> StoreError {
        let (ours, mut theirs) = duplex(1024);
        theirs.write_all(answer).await.unwrap();
        let mut config = Config::new();
        let opened = config.user("app").ssl_mode(mode).connect_raw(ours, NoTls).await;
        request("server", opened.err().unwrap())
    }

    #[tokio::test]
    async fn settings_that_cannot_work_are_no_outage_and_have_their_remedy() {
        let mode = "transaction blocks not allowed in statement pooling mode";
        for (refused, remedy) in [
            (greeted(SslMode::Disable, &message(b'R', &[0, 0, 0, 3])).await, "LEASEHOLD_PASSWORD"),
            (greeted(SslMode::Require, b"N").await, ": write sslmode=disable"),
            (answered_with("08P01", mode).await, ": set pool_mode = transaction"),
        ] {
            assert!(!refused.kind().is_outage(), "{:?}: {refused}", refused.kind());
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
    }
}
