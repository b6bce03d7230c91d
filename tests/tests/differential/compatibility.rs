//! Stores keep and send the same bytes as earlier releases, or bytes with another version.
//! `tests/compatibility/VERSION/` has what that release writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::store::redis_wire::RECORD_VERSION;
use leasehold::store::redis_wire::message;
use leasehold_core::model::{self, Record, UnreadableRecord};
use leasehold_core::{Mode, Now, Refusal, Reply};
use leasehold_testkit::RedisServer;

use super::history::{self, Asked, NAMES, Named, Played, Step, Verb, Who};
use super::server::Server;

/// The variable that asks for the files of the present version.
const WRITE: &str = "LEASEHOLD_WRITE_FORMATS";

const TTL: Duration = Duration::from_secs(30);
const PERMITS: Mode = Mode::Permits { count: 1, capacity: 3 };

/// One value for the record of each name, by its number in [`NAMES`]. One more is for the record
/// whose holder has died, which happens only in the file store.
type Records<T> = BTreeMap<usize, T>;

/// What a release writes when it plays [`before`].
#[derive(Debug, Default, PartialEq, Eq)]
struct Formats {
    /// On Redis, by name.
    hashes: Records<BTreeMap<Vec<u8>, Vec<u8>>>,
    /// In a row of the file store.
    rows: Records<Vec<u8>>,
    /// The published messages, and their recipients.
    messages: Vec<(String, Vec<u8>)>,
}

fn act(name: usize, who: Who, verb: Verb) -> Step {
    Step::Act(name, who, verb)
}

fn acquire(mode: Mode) -> Verb {
    Verb::Acquire { mode, ttl: TTL, wait: true, late: false, ballot: None }
}

/// A history after which the records contain something of each kind, and messages of each kind were
/// sent.
fn before() -> Vec<Step> {
    use Who::{Holder, New, Old};
    let release = |cooldown| Verb::Release { cooldown, unanswered: true };
    let revoke = |force| Verb::Revoke { force, wrong_token: false };
    vec![
        // A lock that was released, revoked, and is held by readers.
        act(0, New(4), acquire(Mode::Exclusive)),
        Step::Pass(1_234_567),
        act(0, Holder(0), release(Duration::ZERO)),
        act(0, New(5), acquire(Mode::Exclusive)),
        act(0, Holder(0), revoke(true)),
        act(0, New(1), acquire(Mode::Shared)),
        act(0, New(2), acquire(Mode::Shared)),
        act(0, Holder(1), Verb::Describe { pid: 7 }),
        act(0, New(6), acquire(Mode::Exclusive)),
        act(0, New(6), acquire(Mode::Shared)),
        act(0, New(7), acquire(Mode::Exclusive)),
        act(0, Old(7, 0), Verb::Cancel { unanswered: true }),
        // A lock that was handed to its next waiter, which has not claimed it yet.
        act(1, New(1), acquire(Mode::Exclusive)),
        act(1, New(2), acquire(Mode::Exclusive)),
        act(1, New(3), acquire(Mode::Exclusive)),
        act(1, Holder(0), revoke(false)),
        Step::Pass(20_000),
        act(1, Holder(0), release(Duration::ZERO)),
        // A semaphore with holders, one that cools down, and waiters.
        act(2, New(1), acquire(PERMITS)),
        act(2, New(2), acquire(PERMITS)),
        act(2, Holder(0), release(Duration::from_secs(20))),
        act(2, New(3), acquire(PERMITS)),
        act(2, New(4), acquire(PERMITS)),
        act(2, Holder(1), Verb::Renew { ttl: TTL }),
        act(2, New(5), acquire(PERMITS)),
    ]
}

/// The next steps on these records, and their results.
fn after() -> Vec<Step> {
    use Who::{Holder, New, Waiter};
    let release = || Verb::Release { cooldown: Duration::ZERO, unanswered: true };
    let renew = || Verb::Renew { ttl: TTL };
    let each = |name| {
        [
            act(name, New(0), Verb::Inspect { limit: 9 }),
            act(name, Holder(0), renew()),
            act(name, Waiter(0), Verb::Poll { ttl: TTL }),
            act(name, Holder(0), release()),
            act(name, Holder(0), release()),
            act(name, New(8), acquire(if name == 2 { PERMITS } else { Mode::Shared })),
            Step::Pass(40_000_000),
            act(name, Waiter(0), Verb::Poll { ttl: TTL }),
            act(name, Holder(0), Verb::Revoke { force: true, wrong_token: false }),
            act(name, Holder(0), Verb::Commit { token: Named::Own(0), ttl: TTL }),
            act(name, New(0), Verb::Inspect { limit: 9 }),
        ]
    };
    (0..NAMES.len()).flat_map(each).collect()
}

/// The records after [`before`], which has played.
fn records(played: &[Played]) -> Records<Record> {
    let mut records: Records<Record> = played.iter().flat_map(|step| step.after.clone()).collect();
    let (mut record, now_us) = (records[&1].clone(), played[played.len() - 1].now_us);
    let now = Now { lease_us: now_us, token_us: now_us };
    let client = record.holds[0].id.client;
    model::reap(&mut record, now, model::Rules::new(), client);
    records.insert(NAMES.len(), record);
    records
}

#[test]
fn what_is_written_is_what_a_release_wrote_or_has_another_version() {
    let mut server = Server::start(RedisServer::options());
    server.forget();
    let played = history::play(&before());
    let mut today = Formats { messages: server.play(&played).unwrap(), ..Formats::default() };
    for (name, record) in records(&played) {
        if name < NAMES.len() {
            today.hashes.insert(name, server.fields(name).into_iter().collect());
        }
        today.rows.insert(name, record.to_bytes());
    }
    if std::env::var_os(WRITE).is_some() {
        today.write(&releases().join(env!("CARGO_PKG_VERSION")));
    }
    let releases = all();
    if releases.values().any(|formats| *formats == today) {
        return;
    }
    let raise = |what: &str| panic!("other bytes of the same version: raise {what}");
    for formats in releases.values() {
        let hashes = (&formats.hashes, &formats.messages) != (&today.hashes, &today.messages);
        if hashes && formats.hash_version() == RECORD_VERSION {
            raise("RECORD_VERSION, in codec.rs and record.lua");
        }
        if formats.rows != today.rows && formats.row_version() == Record::VERSION {
            raise("Record::VERSION");
        }
    }
    panic!(
        "a new version: run this test with {WRITE}=1, add the files that it writes, and say in \
         docs/upgrading.md which releases may share a store"
    );
}

#[test]
fn hashes_of_each_release_are_acted_upon_or_refused_by_their_version() {
    let mut server = Server::start(RedisServer::options());
    let played = history::play(&[before(), after()].concat());
    let (first, next) = played.split_at(history::play(&before()).len());
    for (release, formats) in all() {
        for (name, record) in records(first) {
            if let Some(fields) = formats.hashes.get(&name) {
                server.put(name, fields, &record);
            }
        }
        if formats.hash_version() == RECORD_VERSION {
            server.compare_on(next).unwrap_or_else(|why| panic!("{release}: {why}"));
            continue;
        }
        let refused = Reply::Refused(Refusal::Version { found: formats.hash_version().into() });
        for step in next {
            let Asked::Operation(operation) = &step.asked else { continue };
            assert_eq!(server.carry_out(operation, step.now_us).reply, refused, "{release}");
        }
    }
}

#[test]
fn rows_and_messages_of_each_release_are_read_or_refused_by_their_version() {
    let played = history::play(&before());
    let records = records(&played);
    let told: Vec<_> = played.iter().flat_map(|step| step.messages.clone()).collect();
    for (release, formats) in all() {
        for (name, row) in &formats.rows {
            let version = formats.row_version();
            let expected = match version {
                Record::VERSION => Ok(records[name].clone()),
                _ => Err(UnreadableRecord::Version(version)),
            };
            assert_eq!(Record::from_bytes(row), expected, "{release}");
        }
        let heard = formats.messages.iter();
        let heard: Vec<_> =
            heard.map(|(to, sent)| (to.parse().unwrap(), message(sent).unwrap())).collect();
        assert_eq!(heard, told, "{release}: a message has no version, so that all hear all");
    }
}

fn releases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("compatibility")
}

/// The formats of each release that introduced a new format.
fn all() -> BTreeMap<String, Formats> {
    let entries = fs::read_dir(releases()).unwrap().map(Result::unwrap);
    let read = |entry: fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), Formats::read(&entry.path()))
    };
    let all: BTreeMap<_, _> = entries.map(read).collect();
    assert!(!all.is_empty());
    all
}

impl Formats {
    fn hash_version(&self) -> u8 {
        self.hashes[&0][&b"s"[..]][0]
    }

    fn row_version(&self) -> u8 {
        self.rows[&0][0]
    }

    /// One line for each value: its kind, its owner, and its bytes.
    fn write(&self, release: &Path) {
        let mut text = String::new();
        let hashes = self.hashes.iter().flat_map(|(name, fields)| {
            fields
                .iter()
                .map(move |(field, value)| format!("hash {name} {} {}", hex(field), hex(value)))
        });
        let rows = self.rows.iter().map(|(name, row)| format!("row {name} {}", hex(row)));
        let messages =
            self.messages.iter().map(|(to, bytes)| format!("message {to} {}", hex(bytes)));
        for line in hashes.chain(rows).chain(messages) {
            text.push_str(&line);
            text.push('\n');
        }
        fs::create_dir_all(release).unwrap();
        fs::write(release.join("locks.txt"), text).unwrap();
    }

    fn read(release: &Path) -> Self {
        let text = fs::read_to_string(release.join("locks.txt")).unwrap();
        let mut formats = Self::default();
        for line in text.lines() {
            let number = |text: &str| text.parse::<usize>().unwrap();
            match *line.split(' ').collect::<Vec<_>>() {
                ["hash", name, field, value] => {
                    let hash = formats.hashes.entry(number(name)).or_default();
                    hash.insert(bytes(field), bytes(value));
                }
                ["row", name, row] => {
                    formats.rows.insert(number(name), bytes(row));
                }
                ["message", to, sent] => formats.messages.push((to.to_owned(), bytes(sent))),
                _ => panic!("{line}"),
            }
        }
        formats
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}
