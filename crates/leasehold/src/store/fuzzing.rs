//! Fuzzing targets for all input from outside: for any bytes, nothing panics, and the parsed value
//! holds no more than the bytes say. They are for leasehold's own tests, and not part of the public
//! API.

use std::time::Duration;

use leasehold_core::model::{self, Record, Rules};
use leasehold_core::text::split_scheme;
use leasehold_core::{
    Action, ClientId, Description, End, FencingToken, HolderId, HolderInfo, Keep, Lease, LockName,
    Mode, Now, Request, Take, parse_duration, show_duration,
};

use super::redis;
use super::router::{check_url, shown_url};

/// The name of a corpus, and the function that reads its bytes.
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

/// Reads a record and, if it is sound, applies every action to it.
fn record(bytes: &[u8]) {
    const NOW: Now = Now { lease_us: 1_000_000_000, token_us: 1_800_000_000_000_000 };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(record) = Record::from_text(text) else { return };
    assert_eq!(Record::from_text(&record.to_text()).as_ref(), Ok(&record));
    for action in actions() {
        model::step(&mut record.clone(), &mut 0, NOW, Rules::USUAL, &action);
    }
}

/// Reads a store URL, and checks that nothing shows its password.
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

/// Values with a text form: writing a value that was read, and reading it again, gives the same
/// value.
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

/// One action of each kind. Most are of one attempt, which takes the lease of another attempt over.
fn actions() -> [Action; 9] {
    let (id, ttl) = (HolderId { client: ClientId(1), attempt: 1 }, Duration::from_secs(30));
    let from = HolderId { client: ClientId(2), attempt: 1 };
    let token = FencingToken::from_micros(1_800_000_000_000_000);
    let request = Request::new(id, Mode::Exclusive, HolderInfo::new("db-7", 7));
    let take = Take::new(request.clone(), ttl);
    let description = Description::new(token, HolderInfo::new("db-7", 7));
    [
        Action::End(End::new(request.clone()).with_closes(true)),
        Action::Keep(Keep::new(request.clone(), ttl)),
        Action::Keep(Keep::new(request, ttl).with_description(Some(Box::new(description)))),
        Action::Look { limit: 9 },
        Action::Revoke { id, force: true },
        Action::Take(take.clone()),
        Action::Take(take.clone().with_waits(true)),
        Action::Take(take.clone().with_from(Some(from))),
        Action::Take(take.with_claim(Some(token))),
    ]
}
