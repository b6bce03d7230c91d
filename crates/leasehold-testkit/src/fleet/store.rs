//! A store on a simulated cluster, as one client's process has it.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold::LockName;
use leasehold::admin::ClientId;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::store::{Capabilities, Inbox, Store};
use leasehold::time::{Clock as _, Instant};
use leasehold_core::{Answer, BoxFuture, Message, Operation};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::network::{Fate, Listener, Network, Recipient, lock};
use super::process::{Process, unreachable};

/// How long a request may take, as in the store itself.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How far clocks may be apart, as in a cluster.
const OFFSET: Duration = Duration::from_millis(500);

/// The store of one process.
#[derive(Clone)]
pub struct FleetStore {
    network: Arc<Network>,
    process: Arc<Process>,
}

impl FleetStore {
    /// The store of a new process.
    pub fn new(network: &Arc<Network>) -> Self {
        let first_subscribed = network.draw() as usize % network.len();
        Self { network: Arc::clone(network), process: Arc::new(Process::new(first_subscribed)) }
    }

    /// The process ends: nothing comes from it any more, and nothing arrives.
    pub fn kill(&self) {
        self.process.kill();
    }

    async fn pass(&self, operation: Operation) -> Result<Answer, StoreError> {
        let (network, process) = (&*self.network, &*self.process);
        let index = match &operation {
            Operation::On { name, .. } => network.route(name),
            Operation::Renew(leases) => {
                leases.first().map_or(0, |lease| network.route(&lease.name))
            }
            _ => 0,
        };
        if process.is_killed() {
            return pending().await;
        }
        let sent = network.clock.now();
        let connecting = process.connected(network, index);
        let timeout = sent + TIMEOUT;
        let generation = tokio::select! {
            generation = connecting => generation.map_err(StoreError::not_executed)?,
            () = network.clock.sleep_until(timeout) => return Err(no_answer().not_executed()),
        };
        match network.request(index, generation, &operation).await {
            Fate::Answered(answer, at) if at <= timeout && !process.is_killed() => {
                network.clock.sleep_until(at).await;
                Ok(*answer)
            }
            Fate::Answered(..) | Fate::Lost => {
                network.clock.sleep_until(timeout).await;
                Err(no_answer())
            }
            Fate::Closed => {
                process.closed(network, index, generation).await;
                Err(unreachable().maybe_executed())
            }
        }
    }
}

fn no_answer() -> StoreError {
    StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed()
}

impl fmt::Debug for FleetStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetStore").field("network", &self.network).finish_non_exhaustive()
    }
}

impl Store for FleetStore {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.changes_mode = true;
        can.local_tokens = true;
        can.permits = true;
        can.publishes_releases = true;
        can.queued = true;
        can.recorded_tokens = true;
        can.shared = true;
        can.wakes = true;
        can
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.pass(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let (sender, receiver) = unbounded_channel();
        let listener = Arc::clone(&self.process) as Arc<dyn Listener>;
        lock(&self.network.inboxes).insert(client, Recipient { listener, sender });
        let inbox = FleetInbox { network: Arc::clone(&self.network), receiver, next: None };
        Box::pin(async move { Ok(Box::new(inbox) as Box<dyn Inbox>) })
    }

    fn shard(&self, name: &LockName) -> u64 {
        // Another server may take over, but on the same clock.
        self.network.route(name) as u64
    }

    fn clock_offset(&self) -> Duration {
        OFFSET
    }
}

struct FleetInbox {
    network: Arc<Network>,
    receiver: UnboundedReceiver<(Instant, Message)>,
    /// The next message, which is under way.
    next: Option<(Instant, Message)>,
}

impl Inbox for FleetInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            let (at, message) = match self.next {
                Some(next) => next,
                None => match self.receiver.recv().await {
                    Some(next) => next,
                    None => pending().await,
                },
            };
            self.next = Some((at, message));
            self.network.clock.sleep_until(at).await;
            self.next = None;
            message
        })
    }
}
