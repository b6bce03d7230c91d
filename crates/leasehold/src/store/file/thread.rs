//! The thread of a store, which executes all operations, one after the other, under the write lock.
//!
//! A thread may wait for the write lock while the caller's runtime goes on, and it may wait for the
//! disk. So it opens the database, serves the callers, tidies, and closes the database.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::model;
use leasehold_core::{
    Action, Addressed, Answer, ClientId, Clock, Error, Operation, Reply, StoreError,
    StoreErrorKind, Take,
};
use tokio::sync::oneshot;

use super::access::Access;
use super::database::Database;
use super::disk_space::Reserve;
use super::error::{interrupted, no_turn};
use super::liveness::Liveness;
use super::location::Location;
use super::options::FileOptions;
use super::transaction::{FileTransaction, Site, TIDY_INTERVAL_US};
use super::users::Users;
use super::write_lock::WriteLock;
use super::{schema, subscription};
use crate::clock::SystemClock;
use crate::mutex::Mutex;
use crate::process::{MadeIn, PerProcess};

/// The longest wait of an operation, or of opening the store, for its turn: 5 s. A process holds
/// the write lock for less than a millisecond. After 5 s, the process must have been stopped while
/// it held the lock, or the disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait of a dropped store for its thread: 1 s, enough for a thousand transactions. If
/// another process was stopped (SIGSTOP) while it held the write lock, the thread goes on until
/// that process continues. A drop does not wait for that.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// This value has a clone for each file store that the process has open.
static OPEN: PerProcess<Arc<()>> = PerProcess::new();

/// Some work for the thread.
type Job = Box<dyn FnOnce(&mut Worker) + Send>;

/// One store of this process, as its callers see it. The thread ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) site: Arc<Site>,
    made_in: MadeIn,
    jobs: Sender<Job>,
    /// This end breaks when the thread has closed the database.
    ended: Mutex<Receiver<()>>,
}

/// What the thread works with.
#[derive(Debug)]
struct Worker {
    site: Arc<Site>,
    write_lock: WriteLock,
    database: Database,
    /// This field is dropped after the connection: others must not make another database before the
    /// connection is closed.
    _users: Users,
    /// A clone of [`OPEN`], which keeps forked children from opening a file store.
    _open: Arc<()>,
    /// The time of the next tidying, by the lease clock.
    tidy_at_us: u64,
}

impl Executor {
    /// Opens a store, and blocks meanwhile.
    pub(super) fn open(
        options: FileOptions,
        boot: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = options.path.clone();
        let (report, opened) = mpsc::channel();
        let (jobs, ended) = start(options, boot, clock, move |site| drop(report.send(site)))?;
        let site = opened.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => interrupted(&path),
            RecvTimeoutError::Timeout => no_turn(&path),
        })??;
        Ok(Self { site, made_in: MadeIn::this(), jobs, ended: Mutex::new(ended) })
    }

    /// Opens a store while the caller's runtime goes on.
    pub(super) async fn connect(
        options: FileOptions,
        boot: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = options.path.clone();
        let (report, opened) = oneshot::channel();
        let (jobs, ended) = start(options, boot, clock, move |site| drop(report.send(site)))?;
        let site = in_time(opened, &path).await??;
        Ok(Self { site, made_in: MadeIn::this(), jobs, ended: Mutex::new(ended) })
    }

    /// Refuses a store that was opened before a fork: it belongs to the parent.
    pub(super) fn refuse_in_child(&self) -> Result<(), StoreError> {
        if self.made_in.is_another() { Err(self.site.location.forked()) } else { Ok(()) }
    }

    /// Executes one operation.
    pub(super) async fn execute(&self, operation: Operation) -> Result<Answer, StoreError> {
        self.ask(move |worker| {
            let done = worker.in_turn(|site, database| apply(site, database, &operation))?;
            Ok(worker.site.deliver(done))
        })
        .await
    }

    /// Does the work of another crate in one transaction.
    pub(super) async fn transact<T: Send + 'static>(
        &self,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.ask(|worker| worker.in_turn(|_, database| database.write(Reserve::Keep, work))).await
    }

    /// Registers a client of this process as alive.
    pub(super) async fn register(&self, client: ClientId) -> Result<(), StoreError> {
        self.refuse_in_child()?;
        if self.site.liveness.client(client).is_some() {
            return Ok(());
        }
        self.ask(move |worker| worker.in_turn(|site, _| site.register(client))).await
    }

    /// Has some work done on the thread.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Worker) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.refuse_in_child()?;
        let (reply, receiver) = oneshot::channel();
        let job: Job = Box::new(move |worker| {
            // A caller that has gone asks again if it still wants this.
            if !reply.is_closed() {
                let _ = reply.send(work(worker));
            }
        });
        // If the thread has ended, the job is dropped, and so is the other end.
        let _ = self.jobs.send(job);
        let answered = in_time(receiver, &self.site.location.database).await;
        answered.map_err(StoreError::maybe_executed)?
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // The thread sees that nobody asks any more.
        let jobs = std::mem::replace(&mut self.jobs, mpsc::channel().0);
        if self.made_in.is_another() {
            // The thread, its channel and the locks of files are the parent's.
            return std::mem::forget((jobs, Arc::clone(&self.site)));
        }
        drop(jobs);
        let _ = self.ended.get_mut().recv_timeout(LAST_PATIENCE);
    }
}

/// Starts a thread that opens a database, reports whether it has, and serves the first channel. The
/// second channel breaks when the thread has closed the database.
fn start(
    options: FileOptions,
    boot: String,
    clock: Arc<dyn Clock>,
    report: impl FnOnce(Result<Arc<Site>, Error>) + Send + 'static,
) -> Result<(Sender<Job>, Receiver<()>), StoreError> {
    let (jobs, queue) = mpsc::channel();
    let (ending, ended) = mpsc::channel();
    let run = move || {
        match Worker::open(&options.path, boot, clock) {
            Ok(worker) => {
                report(Ok(Arc::clone(&worker.site)));
                worker.serve(&queue);
            }
            Err(error) => report(Err(error)),
        }
        drop(ending);
    };
    let started = std::thread::Builder::new().name("leasehold-file".to_owned()).spawn(run);
    started.map_err(|error| {
        let text = format!("the thread of the file store could not be started: {error}");
        StoreError::new(StoreErrorKind::Full, text).with_source(error)
    })?;
    Ok((jobs, ended))
}

/// Waits for an answer of the thread, by the system's clock even if a test moves the store's.
async fn in_time<T>(answer: oneshot::Receiver<T>, database: &Path) -> Result<T, StoreError> {
    let clock = SystemClock::new();
    match select(answer, clock.sleep_until(clock.now() + PATIENCE)).await {
        Either::Left((answer, _)) => answer.map_err(|_| interrupted(database)),
        Either::Right(_) => Err(no_turn(database)),
    }
}

impl Worker {
    fn open(path: &Path, boot: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let location = Location::check(path)?;
        refuse_in_child(&location)?;
        schema::refuse_others_files(&location)?;
        let failed = |error| location.io_error("look at it", error);
        let around = |error| location.io_error("look into its directory", error);
        let access = Access::of(&location.database).map_err(failed)?;
        location.create_side(access)?;
        let liveness = Arc::new(Liveness::open(&location, access)?);
        let opened = WriteLock::open(liveness.directory(), access);
        let write_lock = opened.map_err(|error| location.beside_error(error))?;
        let users = Users::open(&location, &boot).map_err(around)?;
        let site = Arc::new(Site { location: location.clone(), boot, clock, liveness });
        let guard = write_lock.lock().map_err(|error| lock_error(&location, error))?;
        let are_others = users.agree(&location)?;
        location.create_database()?;
        let open = Arc::clone(OPEN.this());
        let database = Database::open(&site, !are_others)?;
        access.give_group(&location.log);
        access.give_group(&location.shared_memory);
        if !database.files.has_write_lock(&write_lock.metadata().map_err(failed)?) {
            return Err(location.replaced().into());
        }
        users.join(&database.files).map_err(around)?;
        drop(guard);
        Ok(Self { site, write_lock, database, _users: users, _open: open, tidy_at_us: 0 })
    }

    /// Serves the callers until all of them have gone.
    fn serve(mut self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.run(job);
            // An error here comes again in the next operation, which has a caller to report it to.
            let _ = self.tidy_if_due(jobs);
        }
    }

    fn run(&mut self, job: Job) {
        // The work of another crate may panic. Its transaction is undone, and its caller finds the
        // channel closed.
        let _ = catch_unwind(AssertUnwindSafe(|| job(self)));
    }

    /// Waits for the write lock, and does some work under it.
    fn in_turn<T>(
        &mut self,
        work: impl FnOnce(&Site, &mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { site, write_lock, database, .. } = self;
        let _guard = write_lock.lock().map_err(|error| lock_error(&site.location, error))?;
        work(site, database)
    }

    fn tidy_if_due(&mut self, jobs: &Receiver<Job>) -> Result<(), StoreError> {
        if self.database.has_long_log() {
            // Most of the log is copied while other processes go on writing. The rest is copied
            // while nobody writes.
            self.database.shorten_log()?;
            self.in_turn(|_, database| database.shorten_log())?;
        }
        let now_us = self.site.now().lease_us;
        if self.tidy_at_us > now_us {
            return Ok(());
        }
        self.tidy_at_us = now_us + TIDY_INTERVAL_US;
        let claim = |transaction: &FileTransaction<'_>| transaction.claim_tidying();
        if !self.in_turn(|_, database| database.write(Reserve::Use, claim))? {
            return Ok(());
        }
        // This happens under the write lock, as does making and opening a client's pipe. A client
        // whose pipe is made but not yet open looks dead: without the lock, it would be reaped with
        // the lease that it acquires a moment later.
        let failed = |site: &Site, error| site.location.io_error("look beside it", error);
        let dead =
            self.in_turn(|site, _| site.liveness.dead().map_err(|error| failed(site, error)))?;
        // A listener's pipe needs no lock: it gets its name once it is open.
        let removed = subscription::remove_unread(&self.site.liveness);
        removed.map_err(|error| failed(&self.site, error))?;
        let mut next = Some(String::new());
        while let Some(from) = next {
            let part = |transaction: &FileTransaction<'_>| transaction.tidy(&from, &dead);
            let done = self.in_turn(|_, database| database.write(Reserve::Use, part))?;
            next = self.site.deliver(done);
            jobs.try_iter().for_each(|job| self.run(job));
        }
        self.in_turn(|site, _| {
            dead.iter().for_each(|client| site.liveness.remove(&client.to_string()));
            Ok(())
        })
    }
}

/// One operation, in one transaction. Returns the answer, and the messages to deliver.
fn apply(
    site: &Site,
    database: &mut Database,
    operation: &Operation,
) -> Result<(Answer, Vec<Addressed>), StoreError> {
    let done = database.write(reserve_for(operation), |transaction| {
        model::apply(&mut &*transaction, transaction.now, operation)
    });
    match operation {
        Operation::Keep(leases) if done.is_err() && database.is_replaced() => {
            // The holders must learn immediately that their leases are gone.
            let replies = leases.iter().map(|_| Reply::NotHeld).collect();
            Ok((Answer::new(site.now(), Reply::Many(replies)), Vec::new()))
        }
        _ => done,
    }
}

/// Whether an operation may use the disk space that is set aside: releases, renewals and waiters
/// that ask again may, and requests for something new may not.
fn reserve_for(operation: &Operation) -> Reserve {
    match operation {
        Operation::On { action: Action::Take(Take { place: None, from: None, .. }), .. } => {
            Reserve::Keep
        }
        _ => Reserve::Use,
    }
}

/// Refuses to open a store if the parent of this process had one open at the fork. A fork copies
/// SQLite's view of its file locks, but not the locks. So the child would write without locks and
/// believe that it has them, and would undo locks that others rely on. No other process would
/// notice.
fn refuse_in_child(location: &Location) -> Result<(), StoreError> {
    let is_open = OPEN.of_parents().any(|open| Arc::strong_count(open) > 1);
    if is_open { Err(location.forked()) } else { Ok(()) }
}

fn lock_error(location: &Location, error: std::io::Error) -> StoreError {
    location.io_error("take the write lock beside it", error)
}
