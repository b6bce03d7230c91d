//! Connections that carry nothing but scripts and the WAIT behind them.
//!
//! WAIT counts acknowledgements of what its own connection wrote, and it blocks that connection. So
//! nothing else may travel there, and what comes while one is out must not stand behind it one by
//! one: all scripts that have come together are sent together, with one WAIT for all of them. A
//! replica that lags then delays nobody by more than the WAIT that is out and the one of its own,
//! however many ask.

use std::sync::Arc;

use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use super::replication::{self, Replication};
use super::{Assurance, Outcome, Verdict};
use crate::store::redis::connection::Link;
use crate::store::redis::dial::Dialer;
use crate::store::redis::error;
use crate::store::redis::url::Address;

/// How many connections there are of each runtime to a server: two, so that one waits for replicas
/// while the other sends.
const LANES: usize = 2;

/// Most scripts that share a WAIT: one that fails, fails all of them.
const MOST_TOGETHER: usize = 128;

struct Item {
    command: Cmd,
    /// The node may answer although the slot is not its own yet. That holds for the one command
    /// that follows it.
    asking: bool,
    answer: oneshot::Sender<Outcome>,
}

/// The lanes to one server. Dropping them closes their connections.
#[derive(Debug)]
pub(super) struct Lanes {
    server: String,
    queue: UnboundedSender<Item>,
    workers: Vec<JoinHandle<()>>,
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.workers.iter().for_each(JoinHandle::abort);
    }
}

impl Lanes {
    /// Lanes on the calling runtime. Their connections are opened when they are needed.
    pub(super) fn open(assurance: &Arc<Assurance>, dialer: &Dialer, address: &Address) -> Self {
        let (queue, items) = unbounded_channel();
        let items = Arc::new(Mutex::new(items));
        let server = address.to_string();
        let lane = |_| Lane {
            assurance: Arc::clone(assurance),
            dialer: dialer.clone(),
            address: address.clone(),
            open: None,
        };
        let lanes = (0..LANES).map(lane);
        let workers = lanes.map(|lane| tokio::spawn(lane.work(Arc::clone(&items)))).collect();
        Self { server, queue, workers }
    }

    /// Sends a script together with others that come now, and what is asked behind them.
    pub(super) async fn carry(&self, command: Cmd, asking: bool) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        let ended = || {
            let why = format!("{}: the connection was given up", self.server);
            StoreError::new(StoreErrorKind::Unreachable, why).maybe_executed()
        };
        self.queue.send(Item { command, asking, answer }).map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

/// One connection and whoever works on it.
struct Lane {
    assurance: Arc<Assurance>,
    dialer: Dialer,
    address: Address,
    /// The connection, and the run of the server if that matters.
    open: Option<(Link, String)>,
}

impl Lane {
    async fn work(mut self, items: Arc<Mutex<UnboundedReceiver<Item>>>) {
        loop {
            let mut batch = Vec::new();
            // Whoever has it waits for the next item; the other lane works meanwhile.
            if items.lock().await.recv_many(&mut batch, MOST_TOGETHER).await == 0 {
                return;
            }
            // Nobody waits any more for a call that was dropped before it was sent.
            batch.retain(|item| !item.answer.is_closed());
            self.carry(batch).await;
        }
    }

    async fn carry(&mut self, batch: Vec<Item>) {
        let outcomes = match self.exchange(&batch).await {
            Ok(outcomes) => outcomes,
            Err(error) => {
                // Whatever it was, the next batch has a connection of its own.
                self.open = None;
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        };
        for (item, outcome) in batch.into_iter().zip(outcomes) {
            // Whoever asked may have gone.
            let _ = item.answer.send(outcome);
        }
    }

    async fn exchange(&mut self, batch: &[Item]) -> Result<Vec<Outcome>, StoreError> {
        if self.open.as_ref().is_none_or(|(link, _)| !link.is_alive()) {
            self.open = Some(self.dial().await?);
        }
        let (Some((link, run_id)), Some(replication)) = (&self.open, &self.assurance.replication)
        else {
            return Ok(Vec::new()); // lanes are there for replication
        };
        let needed = replication.needed(&self.address);
        let guard = self.assurance.quarantine.as_ref().map(|q| q.guard(run_id, false).command());
        let role = replication.is_counting().then(|| redis::cmd("ROLE"));
        let mut together = Pipeline::new();
        for item in batch {
            if item.asking {
                together.cmd("ASKING");
            }
            together.add_command(item.command.clone());
        }
        let scripts = together.len();
        for command in guard.into_iter().chain(role).chain([replication.wait(needed)]) {
            together.add_command(command);
        }
        let mut values = link.ask_all(&together).await?;
        let behind = values.split_off(scripts.min(values.len()));
        let mut values = values.into_iter();
        let values = batch.iter().filter_map(|item| match item.asking {
            true => values.nth(1),
            false => values.next(),
        });
        let verdict = self.judge(link, run_id, (replication, needed), behind).await;
        Ok(values.map(|value| Ok((value, verdict.clone()))).collect())
    }

    /// What the guard, ROLE and WAIT say, as far as they were sent.
    async fn judge(
        &self,
        link: &Link,
        run_id: &str,
        (replication, mut needed): (&Replication, u32),
        behind: Vec<Value>,
    ) -> Result<Verdict, StoreError> {
        let mut behind = behind.into_iter();
        let mut next =
            || behind.next().ok_or_else(|| error::nonsense(link.server(), "a WAIT and its like"));
        let quarantined = match &self.assurance.quarantine {
            Some(quarantine) => quarantine.judge(link, run_id, next()?).await?,
            None => None,
        };
        if replication.is_counting() {
            replication.note(&self.address, replication::count(link, next()?)?);
        }
        let mut shortfall = replication.judge(link, needed, next()?)?;
        // A replica was added, and it may be promoted like the others.
        while shortfall.is_none() && needed < replication.needed(&self.address) {
            needed = replication.needed(&self.address);
            let again = link.send(&replication.wait(needed)).await?;
            shortfall = replication.judge(link, needed, again)?;
        }
        Ok(Verdict { shortfall, quarantined })
    }

    async fn dial(&self) -> Result<(Link, String), StoreError> {
        let link = self.dialer.dial(&self.address, None).await?;
        let run_id = match &self.assurance.quarantine {
            Some(_) => link.run_id().await?.to_owned(),
            None => String::new(),
        };
        Ok((link, run_id))
    }
}
