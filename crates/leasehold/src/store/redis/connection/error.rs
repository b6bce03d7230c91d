//! Errors for a refusal, a lost connection or a missing answer. They say whether anything was done,
//! and name the remedy.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use leasehold_core::StoreErrorKind::{
    Corrupt, Denied, Full, NotReplicated, Timeout, Unreachable, Unsupported, Version,
};
use leasehold_core::text::show_duration;
use leasehold_core::{InvalidInput, StoreError, StoreErrorKind};
use redis::{ErrorKind, RedisError, ServerError};
use tokio_rustls::rustls;

/// The kind of server at an address, so that a message can say whose password it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A sentinel, which names the servers.
    Sentinel,
    /// A server, which keeps the locks.
    Server,
}

/// The largest number of characters of a server's text in a message of ours.
const MAX_QUOTE: usize = 200;

/// The beginning of a cluster's URL.
pub(crate) const CLUSTER: &str = "redis+cluster://";

/// The error for a request that the server refused. Redis checks before it executes, so for every
/// code in the table nothing was done. After an error with any other code, or of a command in a
/// script, the script may have stopped half-way.
pub(crate) fn refused(server: &str, reply: &ServerError) -> StoreError {
    let refusal = by_code(server, reply);
    if is_in_script(reply) { refusal.maybe_executed() } else { refusal }
}

/// Whether a command in a script failed. A server adds the script and the line to the text of such
/// an error: `script: SHA1, on @user_script:7.`
pub(crate) fn is_in_script(reply: &ServerError) -> bool {
    reply.details().is_some_and(|text| text.contains("script: ") || text.contains("in script"))
}

/// The error by the code of a refusal, as if no script had begun.
fn by_code(server: &str, reply: &ServerError) -> StoreError {
    let details = quote(reply.details().unwrap_or_default());
    let (kind, words): (_, &str) = match reply.code() {
        "ARGUMENT" => (Unsupported, &format!("a number is out of range: {details}")),
        "BUSY" => (
            Unreachable,
            "the server is busy with somebody's long script: wait, or end that with SCRIPT KILL",
        ),
        "DENIED" => (Denied, &format!("the server refuses this machine: {details}")),
        _ if is_not_served(reply) => (
            Unsupported,
            &format!("the server is a node of a cluster: begin the store URL with {CLUSTER}"),
        ),
        "LOADING" => (Unreachable, "the server is loading its data: wait until that is done"),
        "MASTERDOWN" | "READONLY" => {
            (Unreachable, "the server is a replica: give the primary in the store URL")
        }
        "MISCONF" => {
            (Full, "the server takes no writes because it cannot save to disk: see its log")
        }
        "NOAUTH" => (
            Denied,
            "the server asks for a password: give it in LEASEHOLD_PASSWORD or in the store URL",
        ),
        "NOPERM" if is_in_script(reply) => return lacking(server, &details),
        "NOPERM" => (Denied, &format!("the user lacks a right that leasehold needs: {details}")),
        "NOREPLICAS" => (
            NotReplicated,
            "the server takes no writes because too few replicas follow it (min-replicas-to-write)",
        ),
        "NOSCRIPT" => (Unreachable, "somebody flushes its scripts as fast as they are loaded"),
        "OOM" => (Full, "the server's memory is full: raise maxmemory, or delete something"),
        "UNBLOCKED" => {
            return at(server, Unreachable, "the server became a replica meanwhile")
                .maybe_executed();
        }
        "WRONGPASS" => (Denied, "wrong user or password, or the user is disabled"),
        "WRONGTYPE" => (
            Corrupt,
            "the lock's key has a value that is not leasehold's: delete it, or use another prefix=",
        ),
        "ERR" => return refused_by_words(server, &details),
        code => return half_way(server, &format!("{code} {details}")),
    };
    at(server, kind, words)
}

/// An error of a server.
fn at(server: &str, kind: StoreErrorKind, words: impl fmt::Display) -> StoreError {
    StoreError::new(kind, format!("{server}: {words}"))
}

/// Whether a node of a cluster says that it does not serve a key.
pub(crate) fn is_not_served(reply: &ServerError) -> bool {
    matches!(reply.code(), "ASK" | "CLUSTERDOWN" | "CROSSSLOT" | "MOVED" | "TRYAGAIN")
}

/// The error for a key that no node of a cluster serves at the moment.
pub(crate) fn unserved(server: &str, why: &str) -> StoreError {
    let why = format!("the cluster does not serve this now: {}", quote(why));
    at(server, Unreachable, why)
}

/// The error for a refusal with the code `ERR`, by its text.
fn refused_by_words(server: &str, details: &str) -> StoreError {
    let (kind, words) = if details.starts_with("max number of clients") {
        (Unreachable, "the server is at its limit of clients: raise maxclients")
    } else if details.starts_with("DB index") || details.starts_with("invalid DB") {
        (Unsupported, "the server has no database of that number: give another in the store URL")
    } else if details.contains("a non local key in a cluster node") {
        return unserved(server, "a slot is moving, and only who waits for nobody is served");
    } else if details.contains("cluster support disabled") {
        (Unsupported, "the server is no node of a cluster: begin the store URL with redis://")
    } else if details.starts_with("unknown command") {
        (Version, "the server lacks a command: Redis 7.0 or Valkey 7.2 is needed")
    // The second text is from Redis 7.0.
    } else if details.contains("ACL failure in script")
        || details.starts_with("The user executing the script can't")
    {
        return lacking(server, details);
    } else {
        return half_way(server, details);
    };
    at(server, kind, words)
}

/// The error for a script that stopped at a command which its user may not run.
fn lacking(server: &str, details: &str) -> StoreError {
    let why = "the user lacks a right that leasehold needs, which `leasehold doctor` names";
    at(server, Denied, format!("{why}: {details}")).maybe_executed()
}

fn half_way(server: &str, reply: &str) -> StoreError {
    at(server, Corrupt, format!("unexpected refusal: {reply}")).maybe_executed()
}

/// The error for a request that was handed to the connection and got no answer.
pub(crate) fn unanswered(server: &str, timeout: Duration, error: RedisError) -> StoreError {
    let failure = if error.is_timeout() {
        at(server, Timeout, format!("no answer within {}", show_duration(timeout)))
    } else {
        let why = format!("the connection was lost: {}", quote(&error.to_string()));
        at(server, Unreachable, why)
    };
    failure.maybe_executed().with_source(error)
}

/// The error for an answer that no server should give.
pub(crate) fn unexpected_reply(server: &str, what: &str) -> StoreError {
    at(server, Corrupt, format!("unexpected answer to {what}")).maybe_executed()
}

/// The error for files of TLS that cannot be used now, although they could be used before.
pub(crate) fn no_tls(server: &str, why: &InvalidInput) -> StoreError {
    at(server, Unreachable, &why.why)
}

/// The error for a host that is no valid name: TLS needs a name to check the server.
pub(crate) fn no_name(host: &str) -> StoreError {
    let why = format!("the host {host:?} in the store URL is no name that a certificate can have");
    StoreError::new(Unsupported, why)
}

/// The error for a TLS handshake that failed.
pub(crate) fn handshake(server: &str, error: io::Error) -> StoreError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    let (kind, words) = match cause {
        Some(rustls::Error::InvalidCertificate(why)) => (
            Denied,
            format!(
                "the server's certificate is not to be trusted ({why}): name its authority with ca="
            ),
        ),
        Some(rustls::Error::InvalidMessage(_)) => {
            (Unsupported, "the server does not speak TLS: use redis://".to_owned())
        }
        _ => (Unreachable, format!("no TLS: {}", quote(&error.to_string()))),
    };
    at(server, kind, words).with_source(error)
}

/// The error for a HELLO without an answer.
pub(crate) fn greeting(server: &str, tls: bool, error: RedisError) -> StoreError {
    let text = error.to_string();
    // With TLS 1.3 the server refuses a client without a certificate only after the handshake.
    let (kind, words) = if text.contains("CertificateRequired") || text.contains("HandshakeFailure")
    {
        let words =
            "the server asks for a client certificate: give cert= and key= in the store URL";
        (Denied, words.to_owned())
    } else if tls {
        (Unreachable, format!("no greeting: {}", quote(&text)))
    // A TLS port replies with a TLS message instead of RESP. This error does not pass by itself.
    } else if error.kind() == ErrorKind::Parse {
        let words =
            "the server does not answer as Redis does: if this is a TLS port, use rediss://";
        (Unsupported, words.to_owned())
    } else {
        let words =
            "the server closed the connection at once: if this is a TLS port, use rediss://";
        (Unreachable, words.to_owned())
    };
    at(server, kind, words).with_source(error)
}

/// The error for a server that refused HELLO, or the user's name and password in it.
pub(crate) fn not_let_in(peer: Peer, server: &str, reply: &ServerError) -> StoreError {
    let words = match (peer, reply.code()) {
        (_, "NOPROTO") => return too_old(server),
        (_, "ERR") if reply.details().is_some_and(|why| why.starts_with("unknown command")) => {
            return too_old(server);
        }
        (Peer::Sentinel, "NOAUTH") => {
            "the sentinel asks for a password: give it in LEASEHOLD_SENTINEL_PASSWORD"
        }
        (Peer::Sentinel, "WRONGPASS") => "wrong sentinel_user or LEASEHOLD_SENTINEL_PASSWORD",
        (Peer::Sentinel | Peer::Server, _) => return refused(server, reply),
    };
    at(server, Denied, words)
}

fn too_old(server: &str) -> StoreError {
    at(server, Version, "the server is too old: Redis 7.0 or Valkey 7.2 is needed")
}

/// Whether the server closed the connection. It may accept the next one.
pub(crate) fn is_closed(error: &StoreError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<RedisError>());
    source.is_some_and(|source| source.is_connection_dropped() && !source.is_timeout())
}

/// The error for a connection that took too long to open.
pub(crate) fn too_slow(server: &str, stage: &str, limit: Duration, tls: bool) -> StoreError {
    let hint = match (stage, tls) {
        ("handshake", _) => ": if this is a port without TLS, use redis://",
        ("greeting", false) => ": the server hangs, or it is a TLS port (use rediss://)",
        _ => "",
    };
    at(server, Timeout, format!("no {stage} within {}{hint}", show_duration(limit)))
}

/// Another program's text, as a part of a line of ours.
fn quote(text: &str) -> String {
    let shown = text.chars().take(MAX_QUOTE);
    shown.map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(line: &str) -> StoreError {
        let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
        let redis::Value::ServerError(error) = value else { panic!("{line} is no error") };
        refused("h:1", &error)
    }

    #[test]
    fn a_refusal_before_execution_is_typed_and_certain() {
        use leasehold_core::StoreErrorKind::{
            Corrupt, Denied, Full, NotReplicated, Unreachable, Unsupported, Version,
        };
        for (line, kind) in [
            ("BUSY Redis is busy running a script.", Unreachable),
            ("CLUSTERDOWN Hash slot not served", Unsupported),
            ("ERR DB index is out of range", Unsupported),
            ("ERR max number of clients reached", Unreachable),
            ("ERR unknown command 'EVALSHA'", Version),
            ("LOADING Redis is loading the dataset in memory", Unreachable),
            ("MASTERDOWN Link with MASTER is down", Unreachable),
            ("MISCONF Redis is configured to save RDB snapshots", Full),
            ("MOVED 1 10.0.0.1:6379", Unsupported),
            ("NOAUTH Authentication required.", Denied),
            ("NOPERM User bob has no permissions to run the 'evalsha' command", Denied),
            ("NOREPLICAS Not enough good replicas to write.", NotReplicated),
            ("NOSCRIPT No matching script.", Unreachable),
            ("OOM command not allowed when used memory > 'maxmemory'.", Full),
            ("READONLY You can't write against a read only replica.", Unreachable),
            ("WRONGPASS invalid username-password pair or user is disabled.", Denied),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", Corrupt),
        ] {
            let error = reply(line);
            assert_eq!(error.kind(), kind, "{line}");
            assert!(!error.may_have_executed(), "{line}");
            assert!(error.to_string().starts_with("h:1: "), "{error}");
        }
    }

    #[test]
    fn after_any_other_error_a_script_may_have_stopped_half_way() {
        use leasehold_core::StoreErrorKind::{Corrupt, Denied, Unreachable};
        for (line, kind) in [
            ("ERR ACL failure in script: no permission", Denied),
            ("ERR The user executing the script can't run this command or subcommand", Denied),
            ("NOPERM ACL failure in script: User bob has no permissions to run 'hset'", Denied),
            ("ERR user_script:3: Script attempted to access nonexistent global variable", Corrupt),
            ("UNBLOCKED force unblock from blocking operation", Unreachable),
            ("NEWCODE something", Corrupt),
            (
                "WRONGTYPE Operation against a key holding the wrong kind of value \
                 script: 67b1b64ccda1c1d53fbbcfa5ba5a0f9ff67f1ae3, on @user_script:7.",
                Corrupt,
            ),
        ] {
            assert_eq!((reply(line).kind(), reply(line).may_have_executed()), (kind, true));
        }
    }

    #[test]
    fn the_words_of_a_server_stay_on_one_short_line() {
        let shown = quote(&"a\nb".repeat(1000));
        assert!(shown.starts_with("a b") && shown.len() == MAX_QUOTE, "{shown}");
    }
}
