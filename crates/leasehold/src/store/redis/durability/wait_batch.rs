//! Connections that carry only scripts and the WAIT that follows them.
//!
//! WAIT counts acknowledgements of the writes on the same connection, and it blocks that
//! connection. So the connection carries nothing else. Scripts that come during a WAIT must not
//! queue up behind it one by one. They are sent together, with one WAIT for all of them. So a
//! replica that lags delays a caller by two WAITs at most, the present one and the caller's own,
//! whatever the number of callers.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{self, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::policy::{Durability, Judged, Verdict};
use super::quarantine::Pause;
use super::replication::{self, Replication};
use crate::mutex::Mutex;
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::{self, Connection, SILENCE, error};
use crate::store::redis::layout::key::Part;
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
    /// The part whose boot record applies to the script.
    part: Part,
    answer: oneshot::Sender<Judged>,
}

/// A connection, and the run id of the server if a quarantine needs it.
type Opened = (Connection, String);

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

    /// Sends a script, together with others that come now, and the commands that check their
    /// grants.
    pub(crate) async fn submit(&self, command: Cmd, asking: bool, part: Part) -> Judged {
        let (answer, outcome) = oneshot::channel();
        let ended = || {
            self.health.give_up();
            let why = format!("{}: the connection was given up", self.server);
            StoreError::new(StoreErrorKind::Unreachable, why).maybe_executed()
        };
        self.queue.send(Item { command, asking, part, answer }).map_err(|_| ended())?;
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
    opening: Option<(Instant, JoinHandle<Result<Opened, StoreError>>)>,
    open: Option<Opened>,
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
        if self.open.as_ref().is_none_or(|(connection, _)| !connection.is_alive()) {
            self.open = None;
            self.open = Some(self.connect().await?);
        }
        let (Some((connection, run_id)), Some(replication)) =
            (&self.open, &self.durability.replication)
        else {
            return Ok(Vec::new()); // a batcher exists only for replication
        };
        let needed = replication.needed(&self.address);
        let quarantine = self.durability.quarantine.as_ref();
        let mut parts: Vec<Part> =
            batch.iter().filter(|item| !item.asking).map(|item| item.part).collect();
        parts.sort_unstable();
        parts.dedup();
        let boot = quarantine.map(|quarantine| {
            let ask =
                move |part: &Part| quarantine.question(*part, run_id, false).request.command();
            parts.iter().map(ask)
        });
        let role = replication.is_counting().then(|| redis::cmd("ROLE"));
        let mut together = Pipeline::new();
        for item in batch {
            connection::add(&mut together, item.command.clone(), item.asking);
        }
        let scripts = together.len();
        let boot = boot.into_iter().flatten();
        for command in boot.chain(role).chain([replication.wait(needed)]) {
            together.add_command(command);
        }
        let mut values = connection.ask_all(&together).await?;
        let behind = values.split_off(scripts.min(values.len()));
        let mut values = values.into_iter();
        let values = batch.iter().filter_map(|item| match item.asking {
            true => values.nth(1),
            false => values.next(),
        });
        let judged = self.judge((connection, run_id), (replication, needed), &parts, behind).await;
        let verdict = |item: &Item| {
            let (shortfall, pauses) = judged.as_ref().map_err(Clone::clone)?;
            let pause = match (quarantine, item.asking) {
                (Some(_), true) => Some(Pause::Moving),
                _ => pauses.get(&item.part).copied(),
            };
            Ok(Verdict { shortfall: shortfall.clone(), pause })
        };
        Ok(values.zip(batch).map(|(value, item)| Ok((value, verdict(item)))).collect())
    }

    /// Judges the replies of the boot records, ROLE and WAIT, as far as these were sent. Returns
    /// why grants may be lost with the primary, if they can be, and why a part grants nothing new,
    /// for each such part.
    async fn judge(
        &self,
        (connection, run_id): (&Connection, &str),
        (replication, mut needed): (&Replication, u32),
        parts: &[Part],
        behind: Vec<Value>,
    ) -> Result<(Option<String>, HashMap<Part, Pause>), StoreError> {
        let mut behind = behind.into_iter();
        let mut next = || {
            behind
                .next()
                .ok_or_else(|| error::unexpected_reply(connection.server(), "a WAIT and its like"))
        };
        let mut pauses = HashMap::new();
        if let Some(quarantine) = &self.durability.quarantine {
            for part in parts {
                let pause = quarantine.judge(connection, run_id, *part, next()?).await?;
                pauses.extend(pause.map(|pause| (*part, pause)));
            }
        }
        if replication.is_counting() {
            replication.note(&self.address, replication::count(connection, next()?)?);
        }
        let mut shortfall = replication.judge(connection, needed, next()?)?;
        // A new replica was added, and it may be promoted like the others.
        while shortfall.is_none() && needed < replication.needed(&self.address) {
            needed = replication.needed(&self.address);
            let again = connection.send(&replication.wait(needed)).await?;
            shortfall = replication.judge(connection, needed, again)?;
        }
        Ok((shortfall, pauses))
    }

    /// Connects, or waits for the attempt that is under way. A batch waits for that as long as it
    /// would wait for an answer: a server that hangs must not keep its callers from asking others.
    async fn connect(&mut self) -> Result<Opened, StoreError> {
        let (durability, dialer) = (&self.durability, &self.dialer);
        let start = || {
            let dialling = dial(Arc::clone(durability), dialer.clone(), self.address.clone());
            (Instant::now(), tokio::spawn(dialling))
        };
        let (_, attempt) = self.opening.get_or_insert_with(start);
        let (server, limit) = (self.address.to_string(), dialer.timeout);
        let ended = timeout(limit, attempt).await;
        let ended = ended.map_err(|_| error::too_slow(&server, "connection", limit, false))?;
        self.opening = None;
        ended.unwrap_or_else(|why| Err(socket::unreachable(&server, why.into())))
    }
}

async fn dial(
    durability: Arc<Durability>,
    dialer: Dialer,
    address: Address,
) -> Result<Opened, StoreError> {
    let connection = dialer.dial(&address, None).await?;
    let run_id = match &durability.quarantine {
        Some(_) => connection.run_id().await?.to_owned(),
        None => String::new(),
    };
    Ok((connection, run_id))
}
