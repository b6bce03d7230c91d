//! Connections that carry only scripts and the WAIT that follows them.
//!
//! WAIT counts acknowledgements of the writes on the same connection, and it blocks that
//! connection. So the connection carries nothing else. Scripts that come during a WAIT must not
//! queue up behind it one by one. They are sent together, with one WAIT for all of them. So a
//! replica that lags delays a caller by two WAITs at most, the present one and the caller's own,
//! whatever the number of callers.

use std::sync::{Arc, Weak};
use std::time::Instant;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{self, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::replication::{self, Replication};
use super::{Durability, Judged};
use crate::mutex::Mutex;
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::{self, Connection, SILENCE, error};
use crate::store::redis::options::Address;
use crate::store::socket;

/// The number of connections of each runtime to a server: two, so that one waits for replicas while
/// the other sends.
const CONNECTIONS: usize = 2;

/// The largest number of scripts that share a WAIT: if the WAIT fails, all of them fail.
const MOST_TOGETHER: usize = 128;

struct Item {
    command: Cmd,
    /// The node may answer although the slot is not its own yet (ASKING, for one command only).
    asking: bool,
    answer: oneshot::Sender<Judged>,
}

/// Whether one server is dead, as its workers together have found. Callers cannot judge that,
/// because they may go before their time is over.
#[derive(Debug)]
struct Health {
    /// The connection for everything else. It carries no scripts that wait, so it would seem alive,
    /// and nobody would search for another primary.
    main: Weak<Connection>,
    /// The time at which the first exchange began that has timed out since the last answer.
    silent_since: Mutex<Option<Instant>>,
}

impl Health {
    /// Records an exchange that began at this time. While a worker `is_connecting`, nothing was
    /// sent, so that does not show yet that the server is silent.
    fn note(&self, began: Instant, outcome: Result<(), StoreErrorKind>, is_connecting: bool) {
        let mut silent_since = self.silent_since.lock();
        match outcome {
            Ok(()) => *silent_since = None,
            Err(StoreErrorKind::Timeout) => {
                if !is_connecting {
                    silent_since.get_or_insert(began);
                }
                if silent_since.is_some_and(|since| since.elapsed() >= SILENCE) {
                    self.give_up();
                }
            }
            Err(_) => self.give_up(),
        }
    }

    fn give_up(&self) {
        if let Some(main) = self.main.upgrade() {
            main.retire();
        }
    }
}

/// The workers that wait for the replicas of one server. Dropping this closes their connections.
#[derive(Debug)]
pub(crate) struct WaitBatcher {
    server: String,
    queue: UnboundedSender<Item>,
    health: Arc<Health>,
    workers: Vec<JoinHandle<()>>,
}

impl Drop for WaitBatcher {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

impl WaitBatcher {
    /// Starts the workers on the calling runtime. They open connections when they need them. If
    /// they find the server dead, they give `main` up, too.
    pub(crate) fn open(
        durability: &Arc<Durability>,
        dialer: &Dialer,
        address: &Address,
        main: &Weak<Connection>,
    ) -> Self {
        let (queue, items) = unbounded_channel();
        let items = Arc::new(sync::Mutex::new(items));
        let server = address.to_string();
        let health = Arc::new(Health { main: Weak::clone(main), silent_since: Mutex::default() });
        let worker = |_| Worker {
            durability: Arc::clone(durability),
            dialer: dialer.clone(),
            address: address.clone(),
            health: Arc::clone(&health),
            opening: None,
            open: None,
        };
        let workers = (0..CONNECTIONS).map(worker);
        let workers = workers.map(|worker| tokio::spawn(worker.work(Arc::clone(&items))));
        let workers = workers.collect();
        Self { server, queue, health, workers }
    }

    /// Sends a script, together with others that come now, and the WAIT that checks their grants.
    pub(crate) async fn submit(&self, command: Cmd, asking: bool) -> Judged {
        let (answer, outcome) = oneshot::channel();
        let ended = || {
            self.health.give_up();
            let why = format!("{}: the connection was given up", self.server);
            StoreError::new(StoreErrorKind::Unreachable, why).maybe_executed()
        };
        self.queue.send(Item { command, asking, answer }).map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

/// One connection and the callers that work on it.
struct Worker {
    durability: Arc<Durability>,
    dialer: Dialer,
    address: Address,
    health: Arc<Health>,
    /// The attempt to connect that is under way, and its beginning. It goes on with the next batch:
    /// connecting may take longer than a batch may wait.
    opening: Option<(Instant, JoinHandle<Result<Connection, StoreError>>)>,
    open: Option<Connection>,
}

impl Worker {
    async fn work(mut self, items: Arc<sync::Mutex<UnboundedReceiver<Item>>>) {
        loop {
            let mut batch = Vec::new();
            // The worker that has the lock waits for the next item; the other worker sends
            // meanwhile.
            if items.lock().await.recv_many(&mut batch, MOST_TOGETHER).await == 0 {
                return;
            }
            // A call that was dropped before it was sent has no caller left.
            batch.retain(|item| !item.answer.is_closed());
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<Item>) {
        let sent = Instant::now();
        let dialled = self.opening.as_ref().map(|(began, _)| *began);
        let outcomes = self.exchange(&batch).await;
        // An attempt to connect that has failed began before this batch.
        let began = dialled.filter(|_| self.open.is_none()).unwrap_or(sent);
        let outcome = outcomes.as_ref().map(drop).map_err(StoreError::kind);
        self.health.note(began, outcome, self.opening.is_some());
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // Whatever the error was, the next batch uses a new connection.
                self.open = None;
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (item, outcome) in batch.into_iter().zip(outcomes) {
            // The send fails if the caller has gone.
            let _ = item.answer.send(outcome);
        }
    }

    async fn exchange(&mut self, batch: &[Item]) -> Result<Vec<Judged>, StoreError> {
        if self.open.as_ref().is_none_or(|connection| !connection.is_alive()) {
            self.open = None;
            self.open = Some(self.connect().await?);
        }
        let (Some(connection), Some(replication)) = (&self.open, &self.durability.replication)
        else {
            return Ok(Vec::new()); // a batcher exists only for replication
        };
        let needed = replication.needed(&self.address);
        let role = replication.is_counting().then(|| redis::cmd("ROLE"));
        let mut together = Pipeline::new();
        for item in batch {
            connection::add(&mut together, item.command.clone(), item.asking);
        }
        let scripts = together.len();
        for command in role.into_iter().chain([replication.wait(needed)]) {
            together.add_command(command);
        }
        let mut values = connection.ask_all(&together).await?;
        let behind = values.split_off(scripts.min(values.len()));
        let mut values = values.into_iter();
        let values = batch.iter().filter_map(|item| match item.asking {
            true => values.nth(1),
            false => values.next(),
        });
        let shortfall = self.judge(connection, (replication, needed), behind).await;
        Ok(values.map(|value| Ok((value, shortfall.clone()))).collect())
    }

    /// Judges the replies of ROLE and WAIT, as far as these were sent.
    ///
    /// # Errors
    ///
    /// If grants may be lost with the primary.
    async fn judge(
        &self,
        connection: &Connection,
        (replication, mut needed): (&Replication, u32),
        behind: Vec<Value>,
    ) -> Result<(), StoreError> {
        let mut behind = behind.into_iter();
        let mut next = || {
            behind
                .next()
                .ok_or_else(|| error::unexpected_reply(connection.server(), "a WAIT and its like"))
        };
        if replication.is_counting() {
            replication.note(&self.address, replication::count(connection, next()?)?);
        }
        replication.judge(connection, needed, next()?)?;
        // A new replica was added, and it may be promoted like the others.
        while needed < replication.needed(&self.address) {
            needed = replication.needed(&self.address);
            let again = connection.send(&replication.wait(needed)).await?;
            replication.judge(connection, needed, again)?;
        }
        Ok(())
    }

    /// Connects, or waits for the attempt that is under way. A batch waits for that as long as it
    /// would wait for an answer: a server that hangs must not keep its callers from asking others.
    async fn connect(&mut self) -> Result<Connection, StoreError> {
        let (durability, dialer) = (&self.durability, &self.dialer);
        let start = || {
            let main = durability.quarantine.as_ref().map(|_| Weak::clone(&self.health.main));
            (Instant::now(), tokio::spawn(dial(dialer.clone(), self.address.clone(), main)))
        };
        let (_, attempt) = self.opening.get_or_insert_with(start);
        let (server, limit) = (self.address.to_string(), dialer.timeout);
        let ended = timeout(limit, attempt).await;
        let ended = ended.map_err(|_| error::too_slow(&server, "connection", limit, false))?;
        self.opening = None;
        ended.unwrap_or_else(|why| Err(socket::unreachable(&server, why.into())))
    }
}

/// Connects to the run of the server to which `main` leads, if it is given: with a quarantine, the
/// scripts name that run.
async fn dial(
    dialer: Dialer,
    address: Address,
    main: Option<Weak<Connection>>,
) -> Result<Connection, StoreError> {
    let connection = dialer.dial(&address, None).await?;
    if let Some(main) = main.and_then(|main| main.upgrade())
        && main.run_id().await? != connection.run_id().await?
    {
        let why = format!("{address}: another run of the server answers: connect anew");
        return Err(StoreError::new(StoreErrorKind::Unreachable, why));
    }
    Ok(connection)
}
