//! The thread of a store. It opens the database, does one job after the other, and tidies.
//!
//! The runtimes of the callers go on meanwhile: only this thread waits for the write lock, for
//! another program, or for the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use leasehold_core::{Clock, Error, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use super::database::Database;
use super::error::{FORKED, INTERRUPTED, NO_TURN, error};
use super::transaction::Site;
use crate::clock::{SystemClock, within};
use crate::mutex::Mutex;
use crate::process::MadeIn;

/// The longest wait of an operation, or of opening the store, for its turn: 5 s. A process holds
/// the write lock for less than a millisecond, unless it copies the log. After 5 s, the process
/// must have been stopped while it held the lock, or the disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// The longest wait of a dropped store for its thread: 1 s, enough for a thousand transactions. If
/// another process was stopped (SIGSTOP) while it held the write lock, the thread goes on until
/// that process continues. A drop does not wait for that.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Some work for the thread.
pub(super) type Job = Box<dyn FnOnce(&mut Database) + Send>;

/// One store of this process, as its callers see it. The thread ends when this value is dropped.
#[derive(Debug)]
pub(super) struct Executor {
    pub(super) site: Arc<Site>,
    made_in: MadeIn,
    /// The way to the thread, and the end that breaks when the thread no longer uses the database.
    /// `None` once the database is closed.
    thread: Mutex<Option<(Sender<Job>, Receiver<()>)>>,
}

impl Executor {
    /// Opens a store, and blocks meanwhile.
    pub(super) fn open(path: PathBuf, boot: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let (report, opened) = mpsc::channel();
        start(path.clone(), boot, clock, move |opened| drop(report.send(opened)))?;
        opened.recv_timeout(PATIENCE).map_err(|failed| match failed {
            RecvTimeoutError::Disconnected => error(&path, INTERRUPTED),
            RecvTimeoutError::Timeout => error(&path, NO_TURN),
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
        if self.made_in.is_another() { Err(self.site.location.error(FORKED)) } else { Ok(()) }
    }

    /// Does some work on the thread. If it panics, its transaction is undone.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.refuse_in_child()?;
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |database| {
            // A caller that has gone asks again if it still wants this.
            if !reply.is_closed()
                && let Ok(done) = catch_unwind(AssertUnwindSafe(|| work(database)))
            {
                let _ = reply.send(done);
            }
        });
        // If the thread has ended, the job is dropped, and so is the end for its answer.
        let _ = self.thread.lock().as_ref().map(|(jobs, _)| jobs.send(job));
        let answered = in_time(answer, &self.site.location.database).await;
        answered.map_err(StoreError::maybe_executed)?
    }

    /// Ends the thread, which closes the database, and waits for that. Later work is interrupted.
    pub(super) fn close(&self) {
        if self.made_in.is_another() {
            return;
        }
        // A second caller waits at this lock until the first has seen the end.
        let mut thread = self.thread.lock();
        if let Some((jobs, ended)) = thread.take() {
            // The thread sees that nobody asks any more.
            drop(jobs);
            let _ = ended.recv_timeout(LAST_PATIENCE);
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        if self.made_in.is_another() {
            // The thread and its channels are the parent's.
            std::mem::forget(std::mem::take(&mut self.thread));
        }
        self.close();
    }
}

/// Starts a thread that opens a database, reports the store, and serves it.
fn start(
    path: PathBuf,
    boot: String,
    clock: Arc<dyn Clock>,
    report: impl FnOnce(Result<Executor, Error>) + Send + 'static,
) -> Result<(), StoreError> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let (ending, ended) = mpsc::channel();
    let run = move || {
        let mut database = match Database::open(&path, boot, clock) {
            Ok(database) => database,
            Err(error) => return report(Err(error)),
        };
        let (site, made_in) = (Arc::clone(&database.site), MadeIn::this());
        report(Ok(Executor { site, made_in, thread: Mutex::new(Some((jobs, ended))) }));
        while let Ok(job) = queue.recv() {
            job(&mut database);
            // An error here comes again in the next operation, which has a caller to report it to.
            let _ = database.tidy_if_due(&queue);
        }
        drop(database);
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
    let answer = within(&clock, clock.now() + PATIENCE, answer).await;
    answer.ok_or_else(|| error(database, NO_TURN))?.map_err(|_| error(database, INTERRUPTED))
}
