//! Who does the work: the caller at once if nobody is before it, else a thread that waits.
//!
//! A transaction takes some 30 µs, less than handing it to another thread and back would, so an
//! undisturbed caller does it in place. Waiting is another matter: for another process at the
//! gate, for another task of this one, for the disk. That is done by one thread per store, started
//! when it is first needed, while the caller's runtime goes on.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use leasehold_core::{
    Action, Addressed, Answer, ClientId, Clock, Error, Now, Operation, Reply, StoreError,
    StoreErrorKind,
};
use tokio::sync::oneshot;

use super::access::Access;
use super::bury;
use super::database::{self, Database, Stepped, Writing};
use super::gate::Gate;
use super::identity::Opening;
use super::location::Location;
use super::presence::Presence;
use super::room::Reserve;
use super::tidy;
use super::transact::FileTransaction;
use super::users::Users;

/// How long an operation waits for its turn: 5 s. A turn takes less than a millisecond, so by then
/// a process has been stopped in the middle of one, or the disk hangs.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a dropped store waits for its thread: 1 s, a thousand turns.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Pages of the log at which it is copied into the database: 500, some 2 MB, half of SQLite's own
/// default. Done in the background, since it waits for the disk.
const LONG_LOG_PAGES: u32 = 500;

/// One store of this process.
#[derive(Debug)]
pub(super) struct Desk {
    shared: Arc<Shared>,
    worker: Mutex<Option<Worker>>,
}

#[derive(Debug)]
struct Shared {
    location: Location,
    clock: Arc<dyn Clock>,
    presence: Arc<Presence>,
    books: Mutex<Books>,
    /// Dropped after the connection: others must not make another database before it is closed.
    _users: Users,
    /// Requests with the worker. Nobody overtakes them.
    queued: AtomicUsize,
    /// When to tidy up next, by the lease clock.
    tidy_at_us: AtomicU64,
    /// Pages of the log, as of this process's last transaction.
    log_pages: Arc<AtomicU32>,
    /// The worker has been asked to tidy up.
    is_tidying: AtomicBool,
}

/// What one has to have to one's self.
#[derive(Debug)]
struct Books {
    gate: Gate,
    database: Database,
}

#[derive(Debug)]
struct Worker {
    requests: mpsc::Sender<Request>,
    /// Hung up when the thread ends.
    end: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

enum Request {
    Enter(ClientId, oneshot::Sender<Result<(), StoreError>>),
    Execute(Operation, oneshot::Sender<Result<Answer, StoreError>>),
    Tidy,
    Transact(Box<dyn FnOnce(&Shared) + Send>),
}

impl Desk {
    pub(super) fn open(path: &Path, boot: String, clock: Arc<dyn Clock>) -> Result<Self, Error> {
        let location = Location::check(path)?;
        database::refuse_others_files(&location)?;
        let failed = |error| location.io_error("look at it", error);
        let access = Access::of(&location.database).map_err(failed)?;
        location.create_side(access)?;
        let failed = |error| location.beside_error(error);
        let presence = Arc::new(Presence::open(&location, access).map_err(failed)?);
        let gate = Gate::open(presence.directory(), access).map_err(failed)?;
        let failed = |error| location.io_error("look into its directory", error);
        let users = Users::open(&location).map_err(failed)?;
        let turn = gate.enter().map_err(failed)?;
        let opening = Opening {
            location: &location,
            gate: &gate,
            presence: &presence,
            users: &users,
            boot: &boot,
        };
        opening.join_others()?;
        location.create_database()?;
        let log_pages = Arc::new(AtomicU32::new(0));
        let mut database = Database::open(&location, boot.clone(), Arc::clone(&log_pages))?;
        access.give_group(&location.log);
        access.give_group(&location.shared_memory);
        let files = opening.agree(&mut database)?;
        database.expect(files);
        users.join().map_err(failed)?;
        drop(turn);
        let shared = Shared {
            location,
            clock,
            presence,
            books: Mutex::new(Books { gate, database }),
            _users: users,
            queued: AtomicUsize::new(0),
            tidy_at_us: AtomicU64::new(0),
            log_pages,
            is_tidying: AtomicBool::new(false),
        };
        Ok(Self { shared: Arc::new(shared), worker: Mutex::default() })
    }

    pub(super) fn presence(&self) -> &Arc<Presence> {
        &self.shared.presence
    }

    /// Executes one operation.
    pub(super) async fn execute(&self, operation: Operation) -> Result<Answer, StoreError> {
        let shared = &self.shared;
        let done = match shared.try_in_turn(|database| shared.apply(database, &operation)) {
            Some(done) => done.map(|done| shared.deliver(done)),
            None => self.queue(|reply| Request::Execute(operation, reply)).await,
        };
        self.tidy_if_due();
        done
    }

    /// Does the work of another crate in one transaction.
    pub(super) async fn transact<T: Send + 'static>(
        &self,
        work: impl Fn(&FileTransaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = &self.shared;
        let queued = |reply: oneshot::Sender<_>, work| {
            Request::Transact(Box::new(move |shared: &Shared| {
                if !reply.is_closed() {
                    let _ = reply.send(shared.in_turn(|database| shared.transact(database, &work)));
                }
            }))
        };
        let done = match shared.try_in_turn(|database| shared.transact(database, &work)) {
            Some(done) => done,
            None => self.queue(|reply| queued(reply, work)).await,
        };
        self.tidy_if_due();
        done
    }

    /// Makes a client of this process alive.
    pub(super) async fn enter(&self, client: ClientId) -> Result<(), StoreError> {
        match self.shared.try_in_turn(|_| self.shared.enter(client)) {
            Some(done) => done,
            None => self.queue(|reply| Request::Enter(client, reply)).await,
        }
    }

    async fn queue<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> Request,
    ) -> Result<T, StoreError> {
        let (sender, receiver) = oneshot::channel();
        self.hand(request(sender))?;
        match tokio::time::timeout(PATIENCE, receiver).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(self.shared.late("its thread has ended")),
            Err(_) => Err(self.shared.late("no turn in 5 s: is one of its users stopped?")),
        }
    }

    fn hand(&self, request: Request) -> Result<(), StoreError> {
        let mut worker = lock(&self.worker);
        let worker = match &mut *worker {
            Some(worker) => worker,
            none => none.insert(self.hire()?),
        };
        self.shared.queued.fetch_add(1, Ordering::Relaxed);
        worker.requests.send(request).map_err(|_| self.shared.late("its thread has ended"))
    }

    fn hire(&self) -> Result<Worker, StoreError> {
        let (requests, received) = mpsc::channel();
        let (running, end) = mpsc::channel();
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name("leasehold-file".into())
            .spawn(move || {
                shared.work(&received);
                drop(running);
            })
            .map_err(|error| self.shared.location.io_error("start a thread for it", error))?;
        Ok(Worker { requests, end, thread })
    }

    fn tidy_if_due(&self) {
        if self.shared.is_tidying_due() {
            // Without a thread nothing is tidied, and nothing worse happens.
            let _ = self.hand(Request::Tidy);
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Worker { requests, end, thread }) = worker else { return };
        drop(requests);
        // If another process was stopped in its turn, the thread ends when that one goes on: a
        // drop does not wait so long.
        if end.recv_timeout(LAST_PATIENCE) == Err(RecvTimeoutError::Disconnected) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Does some work here and now, unless that means to wait.
    fn try_in_turn<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        if self.queued.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let mut books = match self.books.try_lock() {
            Ok(books) => books,
            Err(TryLockError::Poisoned(books)) => books.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let Books { gate, database } = &mut *books;
        match gate.try_enter() {
            Ok(Some(_turn)) => Some(work(database)),
            Ok(None) => None,
            Err(error) => Some(Err(self.gate_error(error))),
        }
    }

    fn work(&self, requests: &mpsc::Receiver<Request>) {
        while let Ok(request) = requests.recv() {
            match request {
                Request::Enter(client, reply) => {
                    let done = self.in_turn(|_| self.enter(client));
                    // Whoever asked may have given up.
                    let _ = reply.send(done);
                }
                Request::Execute(operation, reply) => {
                    if !reply.is_closed() {
                        let done = self.in_turn(|database| self.apply(database, &operation));
                        let _ = reply.send(done.map(|done| self.deliver(done)));
                    }
                }
                Request::Tidy => {
                    // What fails here fails again, with someone to tell, in the next operation.
                    let _ = self.tidy();
                    self.is_tidying.store(false, Ordering::Relaxed);
                }
                Request::Transact(work) => work(self),
            }
            self.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Waits for one's turn and takes it.
    fn in_turn<T>(
        &self,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut books = lock(&self.books);
        let Books { gate, database } = &mut *books;
        let _turn = gate.enter().map_err(|error| self.gate_error(error))?;
        work(database)
    }

    fn enter(&self, client: ClientId) -> Result<(), StoreError> {
        self.presence
            .enter(client)
            .map_err(|error| self.location.io_error("make a pipe beside it", error))
    }

    /// One transaction.
    fn apply(
        &self,
        database: &mut Database,
        operation: &Operation,
    ) -> Result<(Answer, Vec<Addressed>), StoreError> {
        let done = database.write(reserve_for(operation), |writing| {
            let now = self.now();
            let mut messages = Vec::new();
            let (reply, more) = match operation {
                Operation::List { prefix, limit, idle } => {
                    (Reply::Names(writing.list(prefix, *limit, *idle)?), false)
                }
                Operation::On { name, action } => {
                    let stepped = self.step(writing, now, name, action)?;
                    messages = stepped.messages;
                    (stepped.reply, stepped.more)
                }
                Operation::Renew(leases) => {
                    let (mut replies, mut more) = (Vec::with_capacity(leases.len()), false);
                    for lease in leases {
                        let stepped = match self.step(writing, now, &lease.name, &lease.action()) {
                            // It ends this lease and none that is renewed with it.
                            Err(error) if error.kind() == StoreErrorKind::Corrupt => {
                                replies.push(Reply::NotHeld { newest: None });
                                continue;
                            }
                            stepped => stepped?,
                        };
                        messages.extend(stepped.messages);
                        more |= stepped.more;
                        replies.push(stepped.reply);
                    }
                    (Reply::Many(replies), more)
                }
                _ => return Err(StoreError::unknown_request()),
            };
            Ok((Answer::new(now, reply).with_more(more), messages))
        });
        match operation {
            Operation::Renew(leases) if done.is_err() && database.is_replaced() => {
                // Who holds must hear at once that there is nothing to renew any more.
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

    fn step(
        &self,
        writing: &Writing<'_>,
        now: Now,
        name: &leasehold_core::LockName,
        action: &Action,
    ) -> Result<Stepped, StoreError> {
        let attempt = bury::attempt_of(action);
        if let Some(id) = attempt
            && matches!(action, Action::Acquire(_) | Action::Adopt(_))
        {
            // Alive before anything is written in its name.
            self.enter(id.client)?;
        }
        let mut stepped = writing.step(name, now, action, &self.presence)?;
        if let Some(id) = attempt
            && let Some(client) = self.presence.client(id.client)
        {
            if bury::may_be_left(action, &stepped.reply) {
                client.keep(id.attempt, std::mem::take(&mut stepped.watched));
            } else {
                client.end(id.attempt);
            }
        }
        Ok(stepped)
    }

    /// Tells everybody concerned, now that it is written, and outside the gate: whoever is woken
    /// goes there at once.
    fn deliver<T>(&self, (answer, messages): (T, Vec<Addressed>)) -> T {
        for (client, message) in messages {
            self.presence.tell(client, message);
        }
        answer
    }

    /// Whether the worker is to be asked to tidy up; of several callers one is told so.
    fn is_tidying_due(&self) -> bool {
        let is_due = self.tidy_at_us.load(Ordering::Relaxed) <= self.now().lease_us;
        (is_due || self.has_long_log()) && !self.is_tidying.swap(true, Ordering::Relaxed)
    }

    fn has_long_log(&self) -> bool {
        self.log_pages.load(Ordering::Relaxed) >= LONG_LOG_PAGES
    }

    fn tidy(&self) -> Result<(), StoreError> {
        if self.has_long_log() {
            // First most of it, while other processes go on writing. Then the rest with nobody
            // writing: only a log that was copied to its end begins again at its beginning.
            lock(&self.books).database.shorten_log()?;
            self.in_turn(|database| database.shorten_log())?;
            self.log_pages.store(0, Ordering::Relaxed);
        }
        let now = self.now();
        if self.tidy_at_us.load(Ordering::Relaxed) > now.lease_us {
            return Ok(());
        }
        self.tidy_at_us.store(now.lease_us + tidy::INTERVAL_US, Ordering::Relaxed);
        if !self
            .in_turn(|database| database.write(Reserve::Use, |writing| tidy::claim(writing, now)))?
        {
            return Ok(());
        }
        // In turn, because a client comes to life in its turn: between the making of its pipe and
        // the opening it would look dead, and be buried with what it acquires a moment later.
        let failed = |error| self.location.io_error("look beside it", error);
        let dead = self.in_turn(|_| self.presence.dead().map_err(failed))?;
        let mut next = Some(String::new());
        while let Some(from) = next {
            next = self.deliver(self.in_turn(|database| {
                database.write(Reserve::Use, |writing| tidy::part(writing, now, &from, &dead))
            })?);
        }
        self.in_turn(|_| {
            dead.iter().for_each(|client| self.presence.forget(*client));
            Ok(())
        })
    }

    fn now(&self) -> Now {
        let since_origin = self.clock.now().since_origin();
        let lease_us = u64::try_from(since_origin.as_micros()).unwrap_or(u64::MAX);
        Now { lease_us, token_us: self.clock.wall_us() }
    }

    fn gate_error(&self, error: std::io::Error) -> StoreError {
        self.location.io_error("lock the gate beside it", error)
    }

    fn late(&self, why: &str) -> StoreError {
        let shown = self.location.database.display();
        StoreError::new(StoreErrorKind::Timeout, format!("file:{shown}: {why}")).maybe_executed()
    }
}

/// What begins something new leaves the room that is set aside for what ends or renews something.
fn reserve_for(operation: &Operation) -> Reserve {
    match operation {
        Operation::On {
            action: Action::Acquire(_) | Action::Describe { .. } | Action::Reclaim(_),
            ..
        } => Reserve::Keep,
        _ => Reserve::Use,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
