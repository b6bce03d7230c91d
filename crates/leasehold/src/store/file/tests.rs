//! The file store in one process: it is compared with the model, and exposed to all kinds of
//! faults.

use std::path::Path;
use std::time::Duration;

use leasehold_core::model::Record;
use leasehold_core::{
    Action, End, FakeClock, FencingToken, HolderId, HolderInfo, Keep, LockName, Message, Mode,
    Reply, Request, Take,
};
use rusqlite::Connection;

use super::*;

mod compatibility;
mod cost;
mod damage;
mod disk_space;
mod places;
mod subscription;
mod transact;

const TTL: Duration = Duration::from_secs(30);

/// The time after which a lease of [`TTL`] has ended.
const OVER: Duration = TTL.saturating_add(Duration::from_millis(1));

const TIDY_INTERVAL: Duration = Duration::from_micros(tidy::INTERVAL_US);

/// How long a test waits for anything: 60 s, generous for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const ALICE: ClientId = ClientId(0xa11ce);
const BOB: ClientId = ClientId(0xb0b);

struct Place {
    directory: tempfile::TempDir,
    clock: FakeClock,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), clock: FakeClock::new() }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("locks.db")
    }

    fn open(&self) -> File {
        self.boot("first")
    }

    fn boot(&self, id: &str) -> File {
        File::with_clock(self.path(), self.clock.clone(), id.to_owned()).unwrap()
    }

    fn refusal(&self) -> StoreError {
        of_store(File::with_clock(self.path(), self.clock.clone(), "first".to_owned()))
    }

    /// The pipe of Alice's client.
    fn pipe(&self) -> PathBuf {
        self.directory.path().join(format!("locks.db.clients/{ALICE}"))
    }

    /// Takes the write lock of the database, as another process does.
    fn turn(&self) -> fs::File {
        let file = fs::File::open(self.directory.path().join("locks.db.clients/gate")).unwrap();
        file.lock().unwrap();
        file
    }

    fn record(&self, name: &LockName) -> Option<Record> {
        record_by(&Connection::open(self.path()).unwrap(), name)
    }
}

fn of_store(opened: Result<File, Error>) -> StoreError {
    let Err(Error::Store(error)) = opened else { panic!("{opened:?}") };
    error
}

fn record_by(connection: &Connection, name: &LockName) -> Option<Record> {
    let sql = "SELECT record FROM lock WHERE name = ?1";
    let text = connection.query_row(sql, [name.as_str()], |row| row.get::<_, String>(0)).ok()?;
    Some(Record::from_text(&text).unwrap())
}

fn name(text: &str) -> LockName {
    LockName::new(text).unwrap()
}

fn request(client: ClientId, attempt: u64) -> Request {
    let info = HolderInfo::new("here", 1).with_label(Some("\"quoted\" ü".into()));
    Request::new(HolderId { client, attempt }, Mode::Exclusive, info)
}

fn acquire(client: ClientId, attempt: u64, waits: bool) -> Action {
    Action::Take(Take::new(request(client, attempt), TTL).with_waits(waits))
}

/// Asks again, with the place of a reply.
fn ask_again(client: ClientId, attempt: u64, reply: &Reply) -> Action {
    let Reply::Queued(place) = reply else { panic!("it does not wait: {reply:?}") };
    let take = Take::new(request(client, attempt), TTL).with_waits(true);
    Action::Take(take.with_place(Some(place.sequence)))
}

/// The renewal of Alice's first lease.
fn renew(ttl: Duration) -> Keep {
    Keep::new(request(ALICE, 1), ttl)
}

fn adopt(by: (ClientId, u64), from: (ClientId, u64)) -> Action {
    let from = HolderId { client: from.0, attempt: from.1 };
    Action::Take(Take::new(request(by.0, by.1), TTL).with_from(Some(from)))
}

fn release(client: ClientId, attempt: u64) -> Action {
    Action::End(End::new(request(client, attempt)))
}

async fn on(store: &File, of: &str, action: Action) -> Reply {
    store.execute(Operation::On { name: name(of), action }).await.unwrap().reply
}

/// Looks at another name, which tidies, until that has had its effect.
async fn tidy_until(store: &File, is_done: impl Fn() -> bool) {
    while !is_done() {
        on(store, "other", Action::Look { limit: 1 }).await;
        tokio::task::yield_now().await;
    }
}

/// The error of one operation.
async fn failure(store: &File, of: &str, action: Action) -> StoreError {
    store.execute(Operation::On { name: name(of), action }).await.unwrap_err()
}

fn token(reply: Reply) -> u64 {
    let Reply::Granted(grant) = reply else { panic!("not granted: {reply:?}") };
    grant.token.get()
}

#[tokio::test]
async fn the_deaths_of_all_who_wait_before_it_and_of_the_holder_wake_a_waiter() {
    let place = Place::new();
    let mut before: Vec<_> = (0..3).map(|_| place.open()).collect();
    for (number, store) in (0..).zip(&before) {
        on(store, "a", acquire(ClientId(number), 1, true)).await;
    }
    let bobs = place.open();
    let mut inbox = bobs.inbox(BOB).await.unwrap();
    let mut reply = on(&bobs, "a", acquire(BOB, 7, true)).await;
    // The holder is the first of them, and the last to die.
    while let Some(store) = before.pop() {
        drop(store);
        let told = tokio::time::timeout(PATIENCE, inbox.next()).await;
        assert_eq!(told, Ok(Message::Gap), "with {} left before it", before.len());
        reply = on(&bobs, "a", ask_again(BOB, 7, &reply)).await;
    }
    token(reply);
}

#[tokio::test]
async fn a_lifeline_keeps_a_client_alive_whose_process_has_ended() {
    let place = Place::new();
    let (alices, bobs) = (place.open(), place.open());
    on(&alices, "a", acquire(ALICE, 1, true)).await;
    let lifeline = alices.lifeline(ALICE);
    drop(alices);
    assert!(matches!(on(&bobs, "a", acquire(BOB, 1, false)).await, Reply::Busy { .. }));
    drop(lifeline);
    token(on(&bobs, "a", acquire(BOB, 2, false)).await);
}

#[tokio::test]
async fn a_lease_that_was_adopted_outlives_the_process_it_came_from_and_ends_with_its_adopters() {
    let place = Place::new();
    let (alices, bobs) = (place.open(), place.open());
    let handed_out = token(on(&alices, "a", acquire(ALICE, 1, true)).await);
    assert!(token(on(&bobs, "a", adopt((BOB, 1), (ALICE, 1))).await) > handed_out);
    drop(alices);
    let carols = place.open();
    let carol = ClientId(0xca401);
    assert!(matches!(on(&carols, "a", acquire(carol, 1, false)).await, Reply::Busy { .. }));
    drop(bobs);
    token(on(&carols, "a", acquire(carol, 2, false)).await);
}

#[tokio::test]
async fn a_lease_that_nobody_has_adopted_ends_with_the_process_it_came_from() {
    let place = Place::new();
    let (alices, bobs) = (place.open(), place.open());
    token(on(&alices, "a", acquire(ALICE, 1, true)).await);
    drop(alices);
    assert_eq!(on(&bobs, "a", adopt((BOB, 1), (ALICE, 1))).await, Reply::NotHeld);
    token(on(&bobs, "a", acquire(BOB, 2, false)).await);
}

#[tokio::test]
async fn a_missing_pipe_proves_no_death() {
    let place = Place::new();
    let (alices, bobs) = (place.open(), place.open());
    on(&alices, "a", acquire(ALICE, 1, true)).await;
    fs::remove_file(place.pipe()).unwrap();
    assert!(matches!(on(&bobs, "a", acquire(BOB, 1, false)).await, Reply::Busy { .. }));
    place.clock.advance(OVER);
    token(on(&bobs, "a", acquire(BOB, 2, false)).await);
}

#[tokio::test]
async fn a_client_that_leaves_nothing_behind_leaves_no_pipe() {
    let place = Place::new();
    let store = place.open();
    on(&store, "a", acquire(ALICE, 1, true)).await;
    on(&store, "a", release(ALICE, 1)).await;
    let pipe = place.pipe();
    assert!(pipe.exists());
    drop(store);
    assert!(!pipe.exists());
}

#[tokio::test]
async fn a_client_that_asks_for_nothing_more_leaves_no_pipe_though_its_store_stays_open() {
    let place = Place::new();
    let store = place.open();
    on(&store, "a", acquire(ALICE, 1, true)).await;
    let pipe = place.pipe();
    store.forget(ALICE);
    assert!(pipe.exists(), "its death would end what it holds");
    let _lifeline = store.lifeline(ALICE).unwrap();
    on(&store, "a", release(ALICE, 1)).await;
    store.forget(ALICE);
    assert!(!pipe.exists());
    on(&store, "a", acquire(ALICE, 2, true)).await;
    assert!(pipe.exists(), "it lives again");
}

#[tokio::test]
async fn a_restart_of_the_machine_ends_all_leases_and_no_token() {
    let place = Place::new();
    let first = token(on(&place.open(), "a", acquire(ALICE, 1, true)).await);
    let store = place.boot("second");
    place.clock.step_wall(-3_600_000_000);
    let Reply::Status(status) = on(&store, "a", Action::Look { limit: 9 }).await else { panic!() };
    assert!(status.holders.is_empty());
    assert!(token(on(&store, "a", acquire(BOB, 1, false)).await) > first);
}

#[tokio::test]
async fn what_was_done_outlives_a_restart_of_the_machine_and_nothing_else_does() {
    let place = Place::new();
    let store = place.open();
    on(&store, "a", acquire(ALICE, 1, true)).await;
    let end = End::new(request(ALICE, 1)).with_done(TTL).with_cooldown(TTL);
    on(&store, "a", Action::End(end)).await;
    let seen = on(&store, "a", Action::Look { limit: 1 }).await;
    let Reply::Status(before) = seen else { panic!("{seen:?}") };
    assert!(before.last_holder.is_some() && !before.is_free());
    drop(store);
    let seen = on(&place.boot("second"), "a", Action::Look { limit: 1 }).await;
    let Reply::Status(after) = seen else { panic!("{seen:?}") };
    assert_eq!(
        (after.last_holder.map(|last| last.id), after.holders),
        (before.last_holder.map(|last| last.id), Vec::new())
    );
}

#[tokio::test]
async fn a_step_of_the_wall_clock_ends_no_lease_and_tokens_grow_on() {
    let place = Place::new();
    let store = place.open();
    let mut last = token(on(&store, "a", acquire(ALICE, 1, true)).await);
    for (attempt, step) in [(1, 3_600_000_000), (3, -7_200_000_000)] {
        place.clock.step_wall(step);
        let refused = on(&store, "a", acquire(BOB, attempt, false)).await;
        assert!(matches!(refused, Reply::Busy { .. }), "{step}: {refused:?}");
        on(&store, "a", release(ALICE, attempt)).await;
        let next = token(on(&store, "a", acquire(ALICE, attempt + 2, true)).await);
        assert!(next > last);
        last = next;
    }
    on(&store, "a", release(ALICE, 5)).await;
    assert_eq!(place.record(&name("a")), None, "a free name has no row");
    place.clock.step_wall(-86_400_000_000);
    assert!(token(on(&store, "a", acquire(ALICE, 6, true)).await) > last);
}

#[tokio::test]
async fn tidying_ends_what_the_dead_hold_and_removes_their_pipes() {
    let place = Place::new();
    let (alices, store) = (place.open(), place.open());
    on(&alices, "a", acquire(ALICE, 1, true)).await;
    on(&alices, "a", Action::Keep(renew(100 * TTL))).await;
    drop(alices);
    place.clock.advance(TIDY_INTERVAL);
    let pipe = place.pipe();
    assert!(pipe.exists(), "it proves the death");
    tidy_until(&store, || !pipe.exists()).await;
    assert_eq!(place.record(&name("a")), None);
}

#[tokio::test]
async fn a_lease_that_has_ended_by_time_leaves_no_row() {
    let place = Place::new();
    let store = place.open();
    on(&store, "a", acquire(ALICE, 1, true)).await;
    place.clock.advance(TIDY_INTERVAL + TTL);
    tidy_until(&store, || place.record(&name("a")).is_none()).await;
}

#[test]
fn a_file_that_is_no_database_is_said_to_be_corrupt() {
    let place = Place::new();
    fs::write(place.path(), "this is a text file, and quite a long one at that.\n".repeat(100))
        .unwrap();
    let error = place.refusal();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

#[test]
fn a_database_of_another_program_or_of_a_newer_release_is_left_alone() {
    let place = Place::new();
    drop(place.open());
    let connection = Connection::open(place.path()).unwrap();
    connection.pragma_update(None, "user_version", schema::VERSION + 1).unwrap();
    let error = place.refusal();
    assert_eq!(error.kind(), StoreErrorKind::Version, "{error}");
    connection.pragma_update(None, "application_id", 7).unwrap();
    let error = place.refusal();
    assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{error}");
}

/// Opens a store as a user without privileges, because a privileged user may write anywhere.
fn open_as_nobody(path: PathBuf) -> StoreError {
    const NOBODY: u32 = 65534;
    let opens = move || {
        if rustix::process::geteuid().is_root() {
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(NOBODY)).unwrap();
        }
        of_store(File::open(path))
    };
    // On Linux the user id belongs to a thread, so no other test loses its rights.
    std::thread::spawn(opens).join().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_place_where_nothing_may_be_written_is_said_to_be_denied() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(place.directory.path(), 0o555);
    let error = open_as_nobody(place.path());
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("allow this user to write"), "{error}");

    mode(place.directory.path(), 0o755);
    drop(place.open());
    for (file, bits) in [("locks.db", 0), ("locks.db.clients", 0)] {
        mode(&place.directory.path().join(file), bits);
    }
    let error = open_as_nobody(place.path());
    assert_eq!(error.kind(), StoreErrorKind::Denied, "{error}");
    // Otherwise the directory could not be removed.
    mode(&place.directory.path().join("locks.db.clients"), 0o700);
}

/// If the call waited in this thread, nobody could ever let it go on.
async fn waits_until(store: &File, go_on: impl FnOnce()) {
    let mut waits = Box::pin(on(store, "a", acquire(ALICE, 1, true)));
    tokio::select! {
        biased;
        _ = &mut waits => panic!("it did not wait"),
        () = tokio::task::yield_now() => go_on(),
    }
    token(waits.await);
}

#[tokio::test]
async fn an_operation_waits_for_its_turn_without_stopping_its_runtime() {
    let place = Place::new();
    let store = place.open();
    let turn = place.turn();
    waits_until(&store, || drop(turn)).await;
    let program = Connection::open(place.path()).unwrap();
    program.execute_batch("BEGIN IMMEDIATE").unwrap();
    waits_until(&store, || program.execute_batch("COMMIT").unwrap()).await;
}

#[test]
fn opening_gives_up_behind_a_process_that_is_stopped_in_its_transaction() {
    let place = Place::new();
    drop(place.open());
    let stopped = place.turn();
    let error = place.refusal();
    drop(stopped);
    assert_eq!(error.kind(), StoreErrorKind::Timeout, "{error}");
    assert!(error.to_string().contains("is one of its users stopped?"), "{error}");
    assert!(!error.may_have_executed());
    drop(place.open());
}

#[test]
fn the_files_are_for_their_user_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let _store = place.open();
    let mode = |file: &str| {
        let path = place.directory.path().join(file);
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    };
    for file in ["locks.db", "locks.db-wal", "locks.db-shm", "locks.db.clients/gate"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
    assert_eq!(mode("locks.db.clients"), 0o700);
}
