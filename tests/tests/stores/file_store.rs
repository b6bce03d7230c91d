//! The file store among real processes: killed at any moment, and creating the file together.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Instant;

use leasehold::admin::{ClientId, HolderId};
use leasehold::store::{File, Store};
use leasehold::{Client, LockName};
use leasehold_core::backoff::Jitter;
use leasehold_core::{Action, End, Operation, Reply};
use leasehold_testkit::harness::{PATIENCE, request, until_so};
use leasehold_testkit::worker::{self, Worker};
use leasehold_testkit::{fresh_number, must};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// One client on a store, without the library.
struct Contender {
    store: File,
    client: ClientId,
    attempts: u64,
}

impl Contender {
    fn new(path: &Path) -> Self {
        Self { store: must(File::open(path)), client: ClientId(fresh_number()), attempts: 0 }
    }

    async fn ask(&self, action: Action) -> Reply {
        let name = must(LockName::new("the lock"));
        must(self.store.execute(Operation::On { name, action }).await).reply
    }

    /// Waits as the protocol says, and returns the token.
    async fn acquire(&mut self) -> u64 {
        self.attempts += 1;
        let id = self.id();
        let mut inbox = must(self.store.inbox(self.client).await);
        let mut take = request(id).with_waits(true);
        loop {
            match self.ask(Action::Take(take.clone())).await {
                Reply::Granted(grant) => return grant.token.get(),
                Reply::Queued(place) => {
                    take = take.with_place(Some(place.sequence));
                    let _ = timeout(place.retry_after, inbox.next()).await;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    async fn release(&self) {
        let release = Action::End(End::new(request(self.id()).request));
        assert_eq!(self.ask(release).await, Reply::Ended(true));
    }

    fn id(&self) -> HolderId {
        HolderId { client: self.client, attempt: self.attempts }
    }
}

fn enter_and_leave(path: &str) {
    worker::end_with_parent();
    let path = Path::new(path);
    must(Builder::new_current_thread().enable_all().build()).block_on(async {
        let mut contender = Contender::new(path);
        loop {
            let token = contender.acquire().await;
            occupy(path, token);
            must(fs::remove_file(section(path)));
            contender.release().await;
        }
    });
}

/// Opens the file when told to, and enters.
fn open(path: &str) {
    worker::say("ready");
    worker::listen();
    must(Builder::new_current_thread().enable_all().build()).block_on(async {
        let mut contender = Contender::new(Path::new(path));
        worker::say(&contender.acquire().await.to_string());
        contender.release().await;
    });
}

/// The holder in the section has a link there that names its process. If the next holder finds the
/// link, the holder before was killed inside.
fn occupy(path: &Path, token: u64) {
    let own = std::process::id().to_string();
    let link = section(path);
    while let Err(error) = symlink(&own, &link) {
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        let other = must(fs::read_link(&link));
        let began = Instant::now();
        // It may take a moment until its death is complete.
        while !is_dead(&other) {
            assert!(began.elapsed() < PATIENCE, "{} and {own} are both inside", other.display());
            assert_eq!(fs::read_link(&link).ok().as_ref(), Some(&other), "both are inside");
        }
        must(fs::remove_file(&link));
    }
    let before = newest(path);
    assert!(before < token, "{before} was before {token}");
    must(fs::write(path.with_extension("newest"), token.to_string()));
}

fn is_dead(process: &Path) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(process).join("stat"));
    let state = status.unwrap_or_default().rsplit(") ").next().map(|rest| rest.chars().next());
    matches!(state, None | Some(None | Some('X' | 'Z')))
}

fn section(path: &Path) -> PathBuf {
    path.with_extension("section")
}

/// The token of the last holder in the section; 0 while it is being written.
fn newest(path: &Path) -> u64 {
    let text = fs::read_to_string(path.with_extension("newest"));
    text.ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Waits until the section was entered this many times.
fn see_entries(path: &Path, count: u64) {
    let began = Instant::now();
    for _ in 0..count {
        let before = newest(path);
        while newest(path) == before {
            assert!(began.elapsed() < PATIENCE, "nobody enters");
            std::thread::yield_now();
        }
    }
}

/// The jobs of the tests below, each for a separate process.
pub(super) fn job(arguments: &[&str]) {
    match *arguments {
        ["enter and leave", path] => enter_and_leave(path),
        ["open", path] => open(path),
        ref other => panic!("no such job: {other:?}"),
    }
}

#[test]
fn processes_that_are_killed_at_any_moment_block_nobody_and_let_nobody_else_in() {
    const PROCESSES: usize = 6;
    const KILLS: u32 = 100;
    let directory = must(tempfile::tempdir());
    let path = directory.path().join("locks.db");
    let start =
        || Worker::start(&["file_store", "enter and leave", must(path.to_str().ok_or("no text"))]);
    let mut workers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    let seed = fresh_number() as u64;
    println!("seed {seed}");
    let mut random = Jitter::new(seed);
    for _ in 0..KILLS {
        see_entries(&path, random.next_u64() % 8);
        // Somewhere between two steps: the delay varies by a few microseconds.
        for _ in 0..random.next_u64() % 2000 {
            std::hint::spin_loop();
        }
        let victim = random.next_u64() as usize % PROCESSES;
        workers[victim].kill9();
        workers[victim] = start();
    }
    see_entries(&path, 100);
}

#[test]
fn processes_may_create_the_file_at_the_same_moment() {
    let directory = must(tempfile::tempdir());
    for round in 0..5 {
        let path = directory.path().join(format!("{round}.db"));
        let path = must(path.to_str().ok_or("no text"));
        let mut workers: Vec<_> =
            (0..8).map(|_| Worker::start(&["file_store", "open", path])).collect();
        workers.iter_mut().for_each(|worker| worker.expect("ready"));
        workers.iter_mut().for_each(|worker| worker.tell("go"));
        let tokens: BTreeSet<_> = workers.iter_mut().filter_map(Worker::hear).collect();
        assert_eq!(tokens.len(), workers.len());
        workers.into_iter().for_each(Worker::finish);
    }
}

#[tokio::test]
async fn a_client_that_is_closed_or_dropped_leaves_no_pipe_beside_a_file_that_stays_open() {
    let place = must(tempfile::tempdir());
    // The file stays open: the store must not depend on this handle.
    let store = must(File::open(place.path().join("locks.db")));
    let client = async || must(Client::builder().store(store.clone()).build().await);
    let pipes = || {
        let beside = must(fs::read_dir(place.path().join("locks.db.clients")));
        let names = beside.map(|entry| must(entry).file_name().to_string_lossy().into_owned());
        names.filter(|name| name.parse::<ClientId>().is_ok()).count()
    };
    let closed = client().await;
    must(must(closed.mutex("a").acquire().await).release().await);
    assert_eq!(pipes(), 1);
    must(closed.close().await);
    until_so("none is left of one that was closed", || pipes() == 0);

    let dropped = client().await;
    let guard = must(dropped.mutex("a").acquire().await);
    drop(dropped);
    until_so("an inbox of the first that opened late has made no pipe that stays", || pipes() == 1);
    drop(guard);
    until_so("none is left of one that was dropped", || pipes() == 0);
}
