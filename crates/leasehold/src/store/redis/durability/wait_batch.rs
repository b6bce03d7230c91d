//! Connections that carry only scripts and the WAIT that follows them.
//!
//! WAIT counts acknowledgements of the writes on the same connection, and it blocks that
//! connection. So the connection carries nothing else. Scripts that come during a WAIT must not
//! queue up behind it one by one. They are sent together, with one WAIT for all of them. So a
//! replica that lags delays a caller by two WAITs at most, the present one and the caller's own,
//! whatever the number of callers.

use std::collections::HashMap;
use std::sync::Arc;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use super::policy::{Durability, Judged, Verdict};
use super::quarantine::Pause;
use super::replication::{self, Replication};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::{Connection, error, eval};
use crate::store::redis::layout::boot_key::Part;
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
    /// The part whose boot record applies to the script.
    part: Part,
    answer: oneshot::Sender<Judged>,
}

/// The workers that wait for the replicas of one server. Dropping this closes their connections.
#[derive(Debug)]
pub(crate) struct WaitBatcher {
    server: String,
    queue: UnboundedSender<Item>,
    workers: Vec<JoinHandle<()>>,
}

impl Drop for WaitBatcher {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

impl WaitBatcher {
    /// Starts the workers on the calling runtime. They open connections when they need them.
    pub(crate) fn open(durability: &Arc<Durability>, dialer: &Dialer, address: &Address) -> Self {
        let (queue, items) = unbounded_channel();
        let items = Arc::new(Mutex::new(items));
        let server = address.to_string();
        let worker = |_| Worker {
            durability: Arc::clone(durability),
            dialer: dialer.clone(),
            address: address.clone(),
            open: None,
        };
        let workers = (0..CONNECTIONS).map(worker);
        let workers = workers.map(|worker| tokio::spawn(worker.work(Arc::clone(&items))));
        let workers = workers.collect();
        Self { server, queue, workers }
    }

    /// Sends a script, together with others that come now, and the commands that check their
    /// grants.
    pub(crate) async fn submit(&self, command: Cmd, asking: bool, part: Part) -> Judged {
        let (answer, outcome) = oneshot::channel();
        let ended = || {
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
    /// The connection, and the run id of the server if a quarantine needs it.
    open: Option<(Connection, String)>,
}

impl Worker {
    async fn work(mut self, items: Arc<Mutex<UnboundedReceiver<Item>>>) {
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
        let outcomes = match self.exchange(&batch).await {
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
            self.open = Some(self.dial().await?);
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
            let ask = move |part: &Part| quarantine.question(*part, run_id, false).command();
            parts.iter().map(ask)
        });
        let role = replication.is_counting().then(|| redis::cmd("ROLE"));
        let mut together = Pipeline::new();
        for item in batch {
            eval::add(&mut together, item.command.clone(), item.asking);
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

    async fn dial(&self) -> Result<(Connection, String), StoreError> {
        let connection = self.dialer.dial(&self.address, None).await?;
        let run_id = match &self.durability.quarantine {
            Some(_) => connection.run_id().await?.to_owned(),
            None => String::new(),
        };
        Ok((connection, run_id))
    }
}
