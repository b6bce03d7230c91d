//! Connections that carry only scripts and the WAIT that follows them.
//!
//! WAIT counts acknowledgements of the writes on the same connection, and it blocks that
//! connection. So the connection carries nothing else. Scripts that come during a WAIT must not
//! queue up behind it one by one. They are sent together, with one WAIT for all of them. So a
//! replica that lags delays a caller by two WAITs at most, the present one and the caller's own,
//! whatever the number of callers.

use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{self, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::replication::{self, Replication};
use super::{Durability, Judged};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::{self, Connection, error};
use crate::store::redis::options::Address;

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

/// The workers that wait for the replicas of one server. Dropping this closes their connections.
#[derive(Debug)]
pub(crate) struct WaitBatcher {
    server: String,
    /// How long a caller waits for the outcome.
    limit: Duration,
    queue: UnboundedSender<Item>,
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
        let worker = |_| {
            let worker = Worker {
                durability: Arc::clone(durability),
                dialer: dialer.clone(),
                address: address.clone(),
                main: Weak::clone(main),
                open: None,
            };
            tokio::spawn(worker.work(Arc::clone(&items)))
        };
        let workers = (0..CONNECTIONS).map(worker).collect();
        Self { server: address.to_string(), limit: dialer.timeout, queue, workers }
    }

    /// Sends a script, together with others that come now, and the WAIT that checks their grants.
    pub(crate) async fn submit(&self, command: Cmd, asking: bool) -> Judged {
        let (answer, outcome) = oneshot::channel();
        let ended = || {
            let why = format!("{}: the connection was given up", self.server);
            StoreError::new(StoreErrorKind::Unreachable, why).maybe_executed()
        };
        self.queue.send(Item { command, asking, answer }).map_err(|_| ended())?;
        match timeout(self.limit, outcome).await {
            Ok(judged) => judged.map_err(|_| ended())?,
            Err(_) => {
                Err(error::too_slow(&self.server, "answer", self.limit, false).maybe_executed())
            }
        }
    }
}

/// One connection and the callers that work on it.
struct Worker {
    durability: Arc<Durability>,
    dialer: Dialer,
    address: Address,
    /// The connection for everything else. It carries no scripts that wait, so it would seem alive,
    /// and nobody would search for another primary.
    main: Weak<Connection>,
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
            self.send(batch).await;
        }
    }

    async fn send(&mut self, mut batch: Vec<Item>) {
        let outcomes = match self.exchange(&mut batch).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                self.after_failure(&error);
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (item, outcome) in batch.into_iter().zip(outcomes) {
            // The send fails if the caller has gone.
            let _ = item.answer.send(outcome);
        }
    }

    /// Gives both connections up, unless the server is only slow.
    fn after_failure(&mut self, error: &StoreError) {
        let is_alive = self.open.as_ref().is_some_and(Connection::is_alive);
        if is_alive && error.kind() == StoreErrorKind::Timeout {
            return;
        }
        self.open = None;
        if let Some(main) = self.main.upgrade() {
            main.retire();
        }
    }

    /// Connects if necessary, sends the scripts of a batch, and waits for their outcomes.
    async fn exchange(&mut self, batch: &mut Vec<Item>) -> Result<Vec<Judged>, StoreError> {
        if self.open.as_ref().is_none_or(|connection| !connection.is_alive()) {
            self.open = None;
            self.open = Some(self.dial().await?);
        }
        // A call that was dropped before it was sent has no caller left.
        batch.retain(|item| !item.answer.is_closed());
        let (Some(connection), Some(replication)) = (&self.open, &self.durability.replication)
        else {
            return Ok(Vec::new()); // a batcher exists only for replication
        };
        let needed = replication.needed(&self.address);
        let role = replication.is_counting().then(|| redis::cmd("ROLE"));
        let mut together = Pipeline::new();
        for item in &*batch {
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

    /// Connects to the run of the server to which the main connection leads: with a quarantine, the
    /// scripts name that run.
    async fn dial(&self) -> Result<Connection, StoreError> {
        let address = &self.address;
        let connection = self.dialer.dial(address, None).await?;
        if self.durability.quarantine.is_some()
            && let Some(main) = self.main.upgrade()
            && main.run_id().await? != connection.run_id().await?
        {
            let why = format!("{address}: another run of the server answers: connect anew");
            return Err(StoreError::new(StoreErrorKind::Unreachable, why));
        }
        Ok(connection)
    }
}
