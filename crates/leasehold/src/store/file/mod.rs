//! Locks for the processes of one machine in one file, without a server.
//!
//! An SQLite database with one row per name; each operation is one transaction around
//! [`leasehold_core::model::step`]. The database survives `kill -9` of any process at any point.
//!
//! | file | what for |
//! |---|---|
//! | `PATH`, `PATH-wal`, `PATH-shm` | the database and its log |
//! | `PATH.clients/gate` | the write lock of the database: [`side`] |
//! | `PATH.clients/<32 hex>` | a pipe per living client: [`liveness`] |
//! | `PATH.clients/news-…` | a pipe per subscriber to the messages about a name: [`inbox`] |
//!
//! All these files have the mode and the group of `PATH`: see [`access`]. A [`thread`] executes the
//! operations.

mod access;
mod database;
mod disk_space;
mod doctor;
mod error;
mod inbox;
mod liveness;
mod location;
mod reap;
mod schema;
mod side;
mod thread;
mod tidy;
mod transaction;
mod users;

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use leasehold_core::{
    Answer, BoxFuture, ClientId, Clock, Error, InvalidInput, LockName, Operation, StoreError,
    StoreErrorKind,
};

use self::disk_space::Reserve;
pub(super) use self::doctor::examine;
use self::inbox::{FileInbox, FileSubscription};
use self::liveness::Liveness;
use self::thread::Executor;
pub use self::transaction::FileTransaction;
use super::{Capabilities, Inbox, Store, Subscribed};
use crate::clock::SystemClock;

/// The boot id, which the kernel draws anew at each start of the machine. (random(4))
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The offsets that a time namespace adds to the machine's clocks, in seconds and nanoseconds, with
/// a line for each clock. The file is missing if the kernel has no time namespaces.
/// (time_namespaces(7))
const CLOCK_OFFSETS: &str = "/proc/self/timens_offsets";

/// A store for the processes of one machine, in one file.
///
/// Leases run on the clock that counts from the start of the machine. A restart of the machine ends
/// all leases, and tokens still grow after it; a change of the wall clock ends no lease. The leases
/// of a process end with the process, however it ends. So the ttl only matters for a process that
/// hangs.
///
/// The store distinguishes one start of the machine from another only on Linux. On other systems, a
/// lease may outlive a restart by its ttl.
///
/// All processes must see the same file with the same clock. So the store refuses hard links, and a
/// file that is mounted alone (mount its directory). It also refuses a process whose boot id or
/// time namespace differs from that of the processes that use the file now. If the file is removed
/// while it is in use, its holders lose their leases at their next renewal. No process creates the
/// file again before the processes that use it have ended. On a full disk, held leases can be
/// renewed and released.
///
/// The store is for its user only, unless its file was made for a group beforehand, in a directory
/// of that group. Then the users of the group share the locks, and notice when each other's
/// processes die.
///
/// Clones share one connection.
#[derive(Clone, Debug)]
pub struct File {
    executor: Arc<Executor>,
    /// The client that has opened this store is its only user, so its end closes the database.
    is_one_clients: bool,
}

impl File {
    /// Opens the database at a path, and creates it if it does not exist. Its directory must exist,
    /// on a local file system.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for a path that is not valid; [`Error::Store`] says what is
    /// wrong with the file or its place and what to do about it.
    ///
    /// # Cost
    ///
    /// Some milliseconds of blocking file operations. Behind a process that was stopped while it
    /// used the database, this fails after 5 s.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::with_clock(path, SystemClock::new(), boot()?)
    }

    /// The path in a store URL: `file:PATH`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] names the part of the URL that is wrong.
    pub fn path(url: &str) -> Result<PathBuf, InvalidInput> {
        location::path(url)
    }

    /// Opens a database for one client, while the caller's runtime goes on.
    pub(super) async fn connect(path: PathBuf) -> Result<Self, Error> {
        let clock = Arc::new(SystemClock::new());
        let executor = Arc::new(Executor::connect(path, boot()?, clock).await?);
        Ok(Self { executor, is_one_clients: true })
    }

    /// Opens a database on the given clock, in the given start of the machine.
    pub(crate) fn with_clock(
        path: impl Into<PathBuf>,
        clock: impl Clock,
        boot: String,
    ) -> Result<Self, Error> {
        let executor = Arc::new(Executor::open(path.into(), boot, Arc::new(clock))?);
        Ok(Self { executor, is_one_clients: false })
    }

    /// Runs `work` in one transaction on the database of this store: all of it or nothing. No
    /// operation on a lock runs at the same time. The result is as durable as the locks. `work`
    /// keeps its data in tables whose prefix the store does not use.
    ///
    /// `work` may run several times, and only one run counts: on a full disk, the store tries again
    /// after it has found some space. `work` should be short, because all locks wait meanwhile. If
    /// it panics, nothing is changed.
    ///
    /// This is for a crate that is released together with this one, like `leasehold-data`: the
    /// version of `rusqlite` is part of the signature of [`FileTransaction::sql`].
    ///
    /// # Errors
    ///
    /// The error that `work` returns. [`Full`](leasehold_core::StoreErrorKind::Full) if the only
    /// disk space left is what the store has set aside for renewals and releases. Otherwise the
    /// same as an operation on a lock.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the work may or may not be done.
    pub async fn transact<T: Send + 'static>(
        &self,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.executor.ask(move |database| database.write(Reserve::Keep, work)).await
    }

    fn liveness(&self) -> &Liveness {
        &self.executor.site.liveness
    }
}

/// The start of the machine, and the offset of this process's clock from the machine's. Leases of
/// two processes can be compared if this is the same in both.
fn boot() -> Result<String, StoreError> {
    if !cfg!(any(target_os = "linux", target_os = "android")) {
        return Ok(String::new());
    }
    let id = fs::read_to_string(BOOT_ID).map_err(|error| {
        // Without the boot id, leases from before a restart would count as valid.
        let text = format!("cannot read {BOOT_ID} ({error}): mount /proc");
        StoreError::new(StoreErrorKind::Unsupported, text).with_source(error)
    })?;
    let offsets = fs::read_to_string(CLOCK_OFFSETS).unwrap_or_default();
    let offset = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let offset: Vec<&str> = offset.unwrap_or_default().split_whitespace().collect();
    Ok(match offset[..] {
        [] | ["0", "0"] => id.trim().to_owned(),
        _ => format!("{} {}", id.trim(), offset.join(" ")),
    })
}

impl Store for File {
    fn capabilities(&self) -> Capabilities {
        Capabilities::OF_RECORDS
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.executor.ask(move |database| database.apply(&operation)))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        Box::pin(async move {
            let open = move |liveness: &_| FileInbox::open(liveness, client);
            let inbox = self.executor.ask(move |database| database.in_turn(open)).await?;
            Ok(Box::new(inbox) as _)
        })
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let told = inbox::publish(self.liveness(), name, message);
        Box::pin(async move { self.executor.site.location.io(told) })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let name = name.clone();
        Box::pin(async move {
            let open = move |liveness: &_| FileSubscription::open(liveness, name);
            let news = self.executor.ask(move |database| database.in_turn(open)).await?;
            Ok(Some(Box::new(news) as _))
        })
    }

    fn lifeline(&self, client: ClientId) -> Option<OwnedFd> {
        self.executor.refuse_in_child().ok()?;
        self.liveness().client(client)?.pipe.try_clone().ok()
    }

    fn forget(&self, client: ClientId) {
        self.liveness().leave(client);
        if self.is_one_clients {
            self.executor.close();
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.executor.site.location.others_database().into_iter().collect()
    }
}

#[cfg(test)]
mod tests;
