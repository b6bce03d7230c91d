//! The operations of a store, one after the other, each under the write lock.
//!
//! A transaction takes less time than the way to another thread and back. So a caller does its
//! transaction itself if nothing keeps it waiting. The caller's runtime must go on meanwhile, so
//! only the thread of the store may wait: for the write lock, for another program, or for the disk.
//! This thread opens the database, does what callers could not do at once, and tidies.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
use super::transaction::{FileTransaction, Site, TIDY_INTERVAL_US};
use super::users::Users;
use super::write_lock::WriteLock;
use super::{schema, subscription};
use crate::clock::SystemClock;
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
    /// `None` once the database is closed.
    worker: Arc<Mutex<Option<Worker>>>,
    jobs: Mutex<Option<Sender<Job>>>,
    /// This end breaks when the thread no longer uses the database.
    ended: Mutex<Receiver<()>>,
}

/// What one caller, or the thread, works with at a time.
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
    pub(super) fn open(path: PathBuf, boot: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let (report, opened) = mpsc::channel();
        start(path.clone(), boot, clock, move |opened| drop(report.send(opened)))?;
        opened.recv_timeout(PATIENCE).map_err(|error| match error {
            RecvTimeoutError::Disconnected => interrupted(&path),
            RecvTimeoutError::Timeout => no_turn(&path),
        })?
    }

    /// Opens a store while the caller's runtime goes on.
    pub(super) async fn connect(
        path: PathBuf,
        boot: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let (report, opened) = oneshot::channel();
        start(path.clone(), boot, clock, move |opened| drop(report.send(opened)))?;
        in_time(opened, &path).await?
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
        self.ask(move |worker| worker.in_turn(|_, database| database.write(Reserve::Keep, &work)))
            .await
    }

    /// Registers a client of this process as alive.
    pub(super) async fn register(&self, client: ClientId) -> Result<(), StoreError> {
        self.ask(move |worker| worker.in_turn(|site, _| site.register(client))).await
    }

    /// Does some work: here if nothing keeps it waiting, otherwise on the thread.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Worker) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.refuse_in_child()?;
        if let Some(done) = self.try_here(&work) {
            return done;
        }
        let (reply, receiver) = oneshot::channel();
        self.send(Box::new(move |worker| {
            // A caller that has gone asks again if it still wants this.
            if !reply.is_closed() {
                let _ = reply.send(worker.attempt(&work));
            }
        }));
        let answered = in_time(receiver, &self.site.location.database).await;
        answered.map_err(StoreError::maybe_executed)?
    }

    /// Does some work in the caller's thread. Returns `None` if the work would have to wait; then
    /// it has written nothing. No caller overtakes those that wait for the thread.
    fn try_here<T>(
        &self,
        work: &impl Fn(&mut Worker) -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        if self.site.queued.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let mut worker = self.worker.try_lock().ok()?;
        let worker = worker.as_mut()?;
        worker.database.may_wait = false;
        let done = worker.attempt(work);
        if worker.is_tidying_due() {
            self.send(Box::new(|_| ()));
        }
        let waits = |kind| matches!(kind, StoreErrorKind::Full | StoreErrorKind::Timeout);
        match done {
            Err(error) if waits(error.kind()) && !error.may_have_executed() => None,
            done => Some(done),
        }
    }

    fn send(&self, job: Job) {
        self.site.queued.fetch_add(1, Ordering::Relaxed);
        // If the thread has ended, the job is dropped, and so is the end for its answer.
        let _ = lock(&self.jobs).as_ref().map(|jobs| jobs.send(job));
    }

    /// Ends the thread, which closes the database, and waits for that. Later work is interrupted.
    pub(super) fn close(&self) {
        if self.made_in.is_another() {
            return;
        }
        // The thread sees that nobody asks any more.
        drop(lock(&self.jobs).take());
        let _ = lock(&self.ended).recv_timeout(LAST_PATIENCE);
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            // The thread, its channel, the connection and the locks of files are the parent's.
            std::mem::forget((std::mem::take(&mut self.jobs), Arc::clone(&self.worker)));
        }
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a thread that opens a database, reports the store, and serves it.
fn start(
    path: PathBuf,
    boot: String,
    clock: Arc<dyn Clock>,
    report: impl FnOnce(Result<Executor, Error>) + Send + 'static,
) -> Result<(), StoreError> {
    let (jobs, queue) = mpsc::channel();
    let (ending, ended) = mpsc::channel();
    let run = move || {
        let worker = match Worker::open(&path, boot, clock) {
            Ok(worker) => worker,
            Err(error) => return report(Err(error)),
        };
        let (site, made_in) = (Arc::clone(&worker.site), MadeIn::this());
        let (worker, ended) = (Arc::new(Mutex::new(Some(worker))), Mutex::new(ended));
        let jobs = Mutex::new(Some(jobs));
        report(Ok(Executor { site, made_in, worker: Arc::clone(&worker), jobs, ended }));
        while let Ok(job) = queue.recv() {
            // Work that panics is caught before this mutex is unlocked, so nothing poisons it.
            if let Some(worker) = &mut *lock(&worker) {
                worker.database.may_wait = true;
                worker.run(job);
                // An error here comes again in the next operation, which has a caller to report it
                // to.
                let _ = worker.tidy_if_due(&queue);
            }
        }
        drop(lock(&worker).take());
        drop(ending);
    };
    let started = std::thread::Builder::new().name("leasehold-file".to_owned()).spawn(run);
    started.map(drop).map_err(|error| {
        let text = format!("the thread of the file store could not be started: {error}");
        StoreError::new(StoreErrorKind::Full, text).with_source(error)
    })
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
        let queued = AtomicUsize::new(0);
        let site = Arc::new(Site { location: location.clone(), boot, clock, liveness, queued });
        let guard = write_lock.lock(true).map_err(|error| lock_error(&location, error))?;
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

    fn run(&mut self, job: Job) {
        job(self);
        self.site.queued.fetch_sub(1, Ordering::Relaxed);
    }

    /// Does some work, perhaps of another crate. If that panics, its transaction is undone.
    fn attempt<T>(
        &mut self,
        work: &impl Fn(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        done.unwrap_or_else(|_| Err(interrupted(&self.site.location.database).maybe_executed()))
    }

    /// Takes the write lock, and does some work under it.
    fn in_turn<T>(
        &mut self,
        work: impl FnOnce(&Site, &mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { site, write_lock, database, .. } = self;
        let taken = write_lock.lock(database.may_wait);
        let _guard = taken.map_err(|error| lock_error(&site.location, error))?;
        work(site, database)
    }

    fn is_tidying_due(&self) -> bool {
        self.database.has_long_log() || self.tidy_at_us <= self.site.now().lease_us
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
        // A listener's pipe needs no lock: it gets its name once it is open.
        let dead = self.in_turn(|site, _| {
            let removed = subscription::remove_unread(&site.liveness);
            let dead = removed.and_then(|()| site.liveness.dead());
            dead.map_err(|error| site.location.io_error("look beside it", error))
        })?;
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

fn lock_error(location: &Location, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::WouldBlock => no_turn(&location.database),
        _ => location.io_error("take the write lock beside it", error),
    }
}
