//! Targets of fuzzing for all that comes from outside: whatever the bytes are, nothing panics, and
//! what is read says no more than they do. For leasehold's own tests: it is no public API.

use std::time::Duration;

use leasehold_core::model::{self, Record};
use leasehold_core::text::split_scheme;
use leasehold_core::{
    Acquire, Action, Adopt, ClientId, FencingToken, HolderId, HolderInfo, Lease, LockName, Mode,
    Now, Reclaim, parse_duration, show_duration,
};

use super::redis;
pub use super::redis::fuzzing::Scene;
use super::router::{check_url, shown_url};

/// What reads bytes, behind the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// Every target of the library.
pub const TARGETS: [Target; 7] = [
    ("message", redis::fuzzing::message),
    ("packed_reply", |bytes| redis::fuzzing::packed_reply(bytes, &actions())),
    ("record", record),
    ("reply", |bytes| redis::fuzzing::reply(bytes, &actions())),
    ("store_url", store_url),
    ("stream", redis::fuzzing::stream),
    ("text", text),
];

/// A password that is part of no other text.
const PASSWORD: &str = "s3cret";

/// A call of a script whose arguments are what the bytes make of sound ones.
pub fn scene(bytes: &[u8]) -> Option<Scene> {
    redis::fuzzing::scene(bytes, &actions())
}

/// Reads a record and, if it can be reckoned with, does everything to it.
fn record(bytes: &[u8]) {
    const NOW: Now = Now { lease_us: 1_000_000_000, token_us: 1_800_000_000_000_000 };
    let Ok(record) = Record::from_bytes(bytes) else { return };
    assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
    for action in actions() {
        model::step(&mut record.clone(), NOW, model::DEFAULT_RETENTION, &action);
    }
}

/// Reads it, and shows its password nowhere.
fn store_url(bytes: &[u8]) {
    let Ok(url) = std::str::from_utf8(bytes) else { return };
    let complaint = check_url(url).err().map(|error| error.to_string()).unwrap_or_default();
    let shown = shown_url(url);
    let servers = split_scheme(url).filter(|(scheme, _)| *scheme != "file");
    let login = servers.and_then(|(_, rest)| rest.strip_prefix("//")?.split_once('@'));
    let password = login.and_then(|(login, _)| login.split_once(':')).map(|(_, password)| password);
    if password.is_some_and(|password| password.contains(PASSWORD))
        && url.matches(PASSWORD).count() == 1
    {
        assert!(!complaint.contains(PASSWORD), "{complaint}");
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
}

/// Values that have a text: what is read is written so that it is read as the same.
fn text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(lease) = text.parse::<Lease>() {
        assert_eq!(lease.to_string().parse(), Ok(lease));
    }
    if let Ok(id) = text.parse::<HolderId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    if let Ok(token) = text.parse::<FencingToken>() {
        assert_eq!(token.to_string().parse(), Ok(token));
    }
    if let Ok(name) = LockName::new(text) {
        assert_eq!(name.as_str(), text);
    }
    if let Ok(span) = parse_duration(text) {
        assert!(parse_duration(&show_duration(span)).is_ok(), "{span:?}");
    }
}

/// One of each, most by one attempt; another one holds what it adopts.
fn actions() -> [Action; 14] {
    let (id, ttl) = (HolderId { client: ClientId(1), attempt: 1 }, Duration::from_secs(30));
    let from = HolderId { client: ClientId(2), attempt: 1 };
    let token = FencingToken::from_micros(1_800_000_000_000_000);
    let (mode, change, unanswered) = (Mode::Exclusive, 1, true);
    let acquire = Acquire::new(id, mode, ttl);
    [
        Action::Acquire(acquire.clone()),
        Action::Acquire(acquire.clone().with_wait(true)),
        Action::Adopt(Adopt::new(from, None, acquire.clone())),
        Action::Cancel { id, unanswered },
        Action::ChangeMode { id, mode: Mode::Shared, change },
        Action::Commit { id, token, ttl },
        Action::Describe { id, info: HolderInfo::new("db-7", 7) },
        Action::Inspect { limit: 9 },
        Action::Poll { id, ttl },
        Action::Reclaim(Reclaim::new(token, change, acquire)),
        Action::Release { id, cooldown: Duration::ZERO, unanswered },
        Action::Renew { id, ttl, mode, change },
        Action::Revoke { id, token, force: true },
        Action::SetCapacity { capacity: 3 },
    ]
}
