//! The executor of a store: one caller at a time uses the database, under the write lock.
//!
//! A transaction takes some 30 µs, which is less than a hand-over to another thread and back. So a
//! caller does its work in place. Only if another process has the write lock, a thread waits for
//! the lock and does the work, while the caller's runtime continues.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::model::{self, Outcome, Records, UnreadableRecord};
use leasehold_core::{
    Action, Addressed, Answer, ClientId, Clock, Error, LockName, Now, Operation, Page, RenewLease,
    Reply, StoreError, StoreErrorKind,
};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::time::timeout;

use super::clients::{self, Liveness};
use super::database::disk_space::Reserve;
use super::database::{Database, FileTransaction, Writing, schema, tidy};
use super::options::{FileOptions, RULES};
use super::place::{Access, Files, Location, Users, WriteLock, WriteLockGuard};
use crate::background;
use crate::process::{MadeIn, PerProcess};

/// The longest wait of an operation, or of opening the store, for the write lock: 5 s. A process
/// holds that lock for less than a millisecond. After 5 s, the process must have been stopped while
/// it held the lock, or the disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// The error after that time.
const NO_TURN: &str = "no turn in 5 s: is one of its users stopped?";

/// How often opening the store tries to take the write lock: each millisecond, about as long as
/// opening takes. A dropped store looks for its thread as often.
const TRY_EVERY: Duration = Duration::from_millis(1);

/// The longest wait of a dropped store for its thread: 1 s, enough for a thousand transactions.
const LAST_PATIENCE: u32 = 1000;

/// The length of the log, in pages, at which it is copied into the database: 500, some 2 MB, half
/// of SQLite's own default. The copying waits for the disk, so it happens in the background.
const LONG_LOG_PAGES: u32 = 500;

/// This value has a clone for each file store that the process has open.
static OPEN: PerProcess<Arc<()>> = PerProcess::new();

/// One store of this process.
#[derive(Debug)]
pub(super) struct Executor {
    made_in: MadeIn,
    shared: Arc<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    location: Location,
    clock: Arc<dyn Clock>,
    liveness: Arc<Liveness>,
    guarded: Arc<Mutex<Guarded>>,
    /// A clone of [`OPEN`], which keeps forked children from opening a file store.
    _open: Arc<()>,
    /// This field is dropped after the connection: others must not make another database before the
    /// connection is closed.
    _users: Users,
    /// The time of the next tidying, by the lease clock.
    tidy_at_us: AtomicU64,
    /// The pages of the log after this process's last transaction.
    log_pages: Arc<AtomicU32>,
    is_tidying: AtomicBool,
}

/// The parts that only one thread of one process uses at a time.
#[derive(Debug)]
struct Guarded {
    write_lock: WriteLock,
    database: Database,
}

impl Executor {
    pub(super) fn open(
        options: &FileOptions,
        boot: String,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let location = Location::check(&options.path)?;
        refuse_in_child(&location)?;
        schema::refuse_others_files(&location)?;
        let failed = |error| location.io_error("look at it", error);
        let access = Access::of(&location.database).map_err(failed)?;
        location.create_side(access)?;
        let liveness = Arc::new(Liveness::open(&location, access)?);
        let beside = |error| location.beside_error(error);
        let write_lock = WriteLock::open(liveness.directory(), access).map_err(beside)?;
        let around = |error| location.io_error("look into its directory", error);
        let users = Users::open(&location, &boot).map_err(around)?;
        let guard = locked_in_time(&write_lock, &*clock, &location)?;
        users.agree(&location)?;
        let is_alone = !users.are_others().map_err(around)?;
        location.create_database()?;
        let open = Arc::clone(OPEN.this());
        let log_pages = Arc::new(AtomicU32::new(0));
        let mut database =
            Database::open(&location, boot, RULES, Arc::clone(&log_pages), is_alone)?;
        access.give_group(&location.log);
        access.give_group(&location.shared_memory);
        let (files, _) = Files::at(&location).map_err(failed)?;
        if !files.has_write_lock(&write_lock.metadata().map_err(failed)?) {
            return Err(location.replaced().into());
        }
        database.expect(files);
        // This is read here, so that a process that uses the store for a moment needs no thread to
        // read it.
        let tidy_at_us =
            database.write(Reserve::Use, |writing| tidy::next_us(writing, Now::of(&*clock)))?;
        users.join(&files).map_err(around)?;
        drop(guard);
        let shared = OpenFile {
            location,
            clock,
            liveness,
            guarded: Arc::new(Mutex::new(Guarded { write_lock, database })),
            _open: open,
            _users: users,
            tidy_at_us: AtomicU64::new(tidy_at_us),
            log_pages,
            is_tidying: AtomicBool::new(false),
        };
        Ok(Self { made_in: MadeIn::this(), shared: Arc::new(shared) })
    }

    pub(super) fn location(&self) -> &Location {
        &self.shared.location
    }

    pub(super) fn liveness(&self) -> &Arc<Liveness> {
        &self.shared.liveness
    }

    /// Refuses a store that was opened before a fork: it belongs to the parent.
    pub(super) fn refuse_in_child(&self) -> Result<(), StoreError> {
        match self.made_in.is_another() {
            true => Err(self.shared.location.forked()),
            false => Ok(()),
        }
    }

    /// Executes one operation.
    pub(super) async fn execute(&self, operation: Operation) -> Result<Answer, StoreError> {
        let apply =
            move |shared: &OpenFile, database: &mut Database| shared.apply(database, &operation);
        self.in_turn(apply, OpenFile::deliver).await
    }

    /// Does the work of another crate in one transaction.
    pub(super) async fn transact<T: Send + 'static>(
        &self,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let transact =
            move |shared: &OpenFile, database: &mut Database| shared.transact(database, &work);
        self.in_turn(transact, |_, done| done).await
    }

    /// Registers a client of this process as alive.
    pub(super) async fn register(&self, client: ClientId) -> Result<(), StoreError> {
        self.in_turn(move |shared, _| shared.register(client), |_, done| done).await
    }

    /// Does some work under the write lock: in the caller's thread, unless another process has the
    /// lock. `after` runs without the write lock, even if the caller has gone.
    async fn in_turn<D: 'static, T: Send + 'static>(
        &self,
        work: impl Fn(&OpenFile, &mut Database) -> Result<D, StoreError> + Send + 'static,
        after: fn(&OpenFile, D) -> T,
    ) -> Result<T, StoreError> {
        self.refuse_in_child()?;
        let shared = &self.shared;
        let no_turn = |_| late(&shared.location, NO_TURN).maybe_executed();
        let mut guarded = match Arc::clone(&shared.guarded).try_lock_owned() {
            Ok(guarded) => guarded,
            Err(_) => timeout(PATIENCE, Arc::clone(&shared.guarded).lock_owned())
                .await
                .map_err(no_turn)?,
        };
        let Guarded { write_lock, database } = &mut *guarded;
        let taken = write_lock.try_lock().map_err(|error| lock_error(&shared.location, error))?;
        let done = match taken.map(|_guard| work(shared, database)) {
            Some(done) => {
                drop(guarded);
                done.map(|done| after(shared, done))
            }
            None => {
                let waiting = self.in_thread(guarded, work, after);
                timeout(PATIENCE, waiting).await.map_err(no_turn)?
            }
        };
        self.tidy_if_due();
        done
    }

    /// Waits for the write lock in another thread, and does the work there.
    async fn in_thread<D: 'static, T: Send + 'static>(
        &self,
        mut guarded: OwnedMutexGuard<Guarded>,
        work: impl Fn(&OpenFile, &mut Database) -> Result<D, StoreError> + Send + 'static,
        after: fn(&OpenFile, D) -> T,
    ) -> Result<T, StoreError> {
        let (reply, receiver) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        background::spawn_blocking(move || {
            let done = shared.locked(&mut guarded, |database| work(&shared, database));
            drop(guarded);
            let _ = reply.send(done.map(|done| after(&shared, done)));
        })?;
        let interrupted = || late(&self.shared.location, "the work was interrupted");
        receiver.await.unwrap_or_else(|_| Err(interrupted().maybe_executed()))
    }

    fn tidy_if_due(&self) {
        let shared = &self.shared;
        let is_due = shared.has_long_log()
            || shared.tidy_at_us.load(Ordering::Relaxed) <= shared.now().lease_us;
        if !is_due || shared.is_tidying.swap(true, Ordering::Relaxed) {
            return;
        }
        let tidies = Arc::clone(shared);
        let begun = background::spawn_blocking(move || {
            // An error here comes again in the next operation, which has a caller to report it to.
            let _ = tidies.tidy();
            tidies.is_tidying.store(false, Ordering::Relaxed);
        });
        if begun.is_err() {
            // No thread can be started: a later operation tries again.
            shared.is_tidying.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            // SQLite's connection and the locks of files are the parent's.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        // If another process was stopped (SIGSTOP) while it held the write lock, a thread goes on
        // until that process continues. A drop does not wait for that.
        for _ in 0..LAST_PATIENCE {
            if Arc::strong_count(&self.shared) == 1 {
                break;
            }
            std::thread::sleep(TRY_EVERY);
        }
    }
}

impl OpenFile {
    /// Waits for the write lock, and does some work under it.
    fn locked<T>(
        &self,
        guarded: &mut Guarded,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Guarded { write_lock, database } = guarded;
        let _guard = write_lock.lock().map_err(|error| lock_error(&self.location, error))?;
        work(database)
    }

    /// Waits for its turn, in a thread where that may block.
    fn in_turn<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.locked(&mut self.guarded.blocking_lock(), work)
    }

    fn register(&self, client: ClientId) -> Result<(), StoreError> {
        self.liveness
            .register(client)
            .map_err(|error| self.location.io_error("make a pipe beside it", error))
    }

    /// One transaction.
    fn apply(
        &self,
        database: &mut Database,
        operation: &Operation,
    ) -> Result<(Answer, Vec<Addressed>), StoreError> {
        let done = database.write(reserve_for(operation), |writing| {
            model::apply(&mut Transacted { shared: self, writing }, self.now(), operation)
        });
        match operation {
            Operation::Renew(leases) if done.is_err() && database.is_replaced() => {
                // The holders must learn immediately that their leases are gone.
                let replies = leases.iter().map(|_| Reply::NotHeld { newest: None }).collect();
                let (now, reply) = (self.now(), Reply::Many(replies));
                Ok((Answer::new(now, reply), Vec::new()))
            }
            _ => done,
        }
    }

    fn transact<T>(
        &self,
        database: &mut Database,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        database.write(Reserve::Keep, |writing| {
            work(&FileTransaction { writing, now_us: self.now().token_us })
        })
    }

    /// Sends the messages after the commit, and without the write lock: a client that is woken
    /// takes the write lock immediately.
    fn deliver<T>(&self, (answer, messages): (T, Vec<Addressed>)) -> T {
        for (client, message) in messages {
            self.liveness.send(client, message);
        }
        answer
    }

    fn has_long_log(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= LONG_LOG_PAGES
    }

    fn tidy(&self) -> Result<(), StoreError> {
        if self.has_long_log() {
            // Most of the log is copied into the database (a checkpoint) while other processes go
            // on writing. The rest is copied while nobody writes: only a log that was copied to its
            // end starts again from its beginning.
            self.guarded.blocking_lock().database.shorten_log()?;
            self.in_turn(|database| database.shorten_log())?;
            self.log_pages.store(0, Ordering::Relaxed);
        }
        let now_us = self.now().lease_us;
        if self.tidy_at_us.load(Ordering::Relaxed) > now_us {
            return Ok(());
        }
        self.tidy_at_us.store(now_us + tidy::INTERVAL_US, Ordering::Relaxed);
        // Like every step, tidying reads the clock under the write lock. With the time from before
        // it waited, a grant might be over before its waiter could claim it.
        let is_due = self.in_turn(|database| {
            database.write(Reserve::Use, |writing| tidy::claim(writing, self.now()))
        })?;
        if !is_due {
            return Ok(());
        }
        // This happens under the write lock, as does making and opening a client's pipe. A client
        // whose pipe is made but not yet open looks dead: without the lock, it would be reaped with
        // the lease that it acquires a moment later.
        let failed = |error| self.location.io_error("look beside it", error);
        let dead = self.in_turn(|_| self.liveness.dead().map_err(failed))?;
        // A listener's pipe needs no lock: it gets its name once it is open.
        clients::subscription::remove_unread(&self.liveness).map_err(failed)?;
        let mut next = Some(String::new());
        while let Some(from) = next {
            next = self.deliver(self.in_turn(|database| {
                database
                    .write(Reserve::Use, |writing| tidy::part(writing, self.now(), &from, &dead))
            })?);
        }
        self.in_turn(|_| {
            dead.iter().for_each(|client| self.liveness.forget(*client));
            Ok(())
        })
    }

    fn now(&self) -> Now {
        Now::of(&*self.clock)
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

/// Takes the write lock for opening the store. A thread that waited in the kernel could not give
/// up, so this tries again and again.
fn locked_in_time<'a>(
    write_lock: &'a WriteLock,
    clock: &dyn Clock,
    location: &Location,
) -> Result<WriteLockGuard<'a>, StoreError> {
    let until = clock.now() + PATIENCE;
    loop {
        let taken = write_lock.try_lock().map_err(|error| lock_error(location, error))?;
        if let Some(guard) = taken {
            return Ok(guard);
        }
        if clock.now() >= until {
            return Err(late(location, NO_TURN));
        }
        std::thread::sleep(TRY_EVERY);
    }
}

fn lock_error(location: &Location, error: std::io::Error) -> StoreError {
    location.io_error("take the write lock beside it", error)
}

fn late(location: &Location, why: &str) -> StoreError {
    let shown = location.database.display();
    StoreError::new(StoreErrorKind::Timeout, format!("file:{shown}: {why}"))
}

/// The records of all names, in one transaction.
struct Transacted<'a> {
    shared: &'a OpenFile,
    writing: &'a Writing<'a>,
}

impl Records for Transacted<'_> {
    type Error = StoreError;

    fn list(&mut self, prefix: &str, limit: u32) -> Result<Vec<LockName>, StoreError> {
        self.writing.list(prefix, limit)
    }

    fn page(&mut self, prefix: &str, after: Option<&str>, keys: u32) -> Result<Page, StoreError> {
        self.writing.page(prefix, after, keys)
    }

    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, StoreError> {
        let liveness = &self.shared.liveness;
        let attempt = action.holder();
        if let Some(id) = attempt
            && matches!(action, Action::Acquire(_) | Action::Adopt(_))
        {
            // The client must count as alive before anything is written in its name.
            self.shared.register(id.client)?;
        }
        let (outcome, watched) = self.writing.step(name, now, action, liveness)?;
        if let Some(id) = attempt
            && let Some(client) = liveness.client(id.client)
        {
            if clients::may_be_left(action, &outcome.reply) {
                client.keep(id.attempt, watched);
            } else {
                client.end(id.attempt);
            }
        }
        Ok(outcome)
    }

    fn renew(&mut self, now: Now, lease: &RenewLease) -> Result<Outcome, StoreError> {
        self.step(now, &lease.name, &lease.action()).or_else(|error| {
            // The error concerns this lease only, and no other lease that is renewed with it.
            let unreadable = error.source().and_then(|cause| cause.downcast_ref());
            let refusal = unreadable.copied().map(UnreadableRecord::refusal).ok_or(error)?;
            Ok(Outcome { reply: Reply::Refused(refusal), messages: Vec::new(), more: false })
        })
    }
}

/// Whether an operation may use the disk space that is set aside: releases and renewals may, and
/// requests for something new may not.
fn reserve_for(operation: &Operation) -> Reserve {
    match operation {
        Operation::On {
            action: Action::Acquire(_) | Action::Describe { .. } | Action::Reclaim(_),
            ..
        } => Reserve::Keep,
        _ => Reserve::Use,
    }
}

#[cfg(test)]
mod tests;
