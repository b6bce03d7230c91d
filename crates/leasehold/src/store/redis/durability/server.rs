//! A server behind its connection. It runs scripts, and returns a reply that grants something only
//! once the conditions of the store are met.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use futures_util::future::join;
use leasehold_core::StoreError;
use redis::Value;

use super::quarantine::{self, Pause, Quarantine};
use super::replication::WAIT_SLACK;
use super::wait_batch::WaitBatcher;
use super::{Durability, Judged};
use crate::mutex::Mutex;
use crate::store::redis::connection::call::{Call, Effect};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::{Connection, Failure, is_to_load};
use crate::store::redis::layout::key::Part;
use crate::store::redis::options::Address;

/// Opens connections to servers, with the conditions of the store.
#[derive(Clone, Debug)]
pub(crate) struct ServerDialer {
    pub(crate) dialer: Dialer,
    durability: Option<Arc<Durability>>,
}

impl ServerDialer {
    pub(crate) fn new(dialer: Dialer, durability: Option<Arc<Durability>>) -> Self {
        Self { dialer, durability }
    }

    /// Opens a connection for requests on the calling runtime.
    pub(crate) async fn dial(&self, address: &Address) -> Result<Server, StoreError> {
        let connection = Arc::new(self.dialer.dial(address, None).await?);
        let durable = self.durability.as_ref().map(|durability| {
            let dialer = self.dialer.more_patient(WAIT_SLACK);
            Box::new(Durable {
                durability: Arc::clone(durability),
                dialer,
                address: address.clone(),
                main: Arc::downgrade(&connection),
                asked: Mutex::default(),
                begun: Mutex::default(),
                waiting: OnceLock::new(),
            })
        });
        Ok(Server { connection, durable, has_draw: AtomicBool::new(false) })
    }

    /// Records that a replica has taken over from a primary.
    pub(crate) fn note_takeover(&self, from: &Address, to: &Address) {
        let durability = self.durability.as_ref();
        if let Some(replication) = durability.and_then(|all| all.replication.as_ref()) {
            replication.note_takeover(from, to);
        }
    }
}

/// A server, with the connections of one runtime.
#[derive(Debug)]
pub(crate) struct Server {
    connection: Arc<Connection>,
    durable: Option<Box<Durable>>,
    /// Whether the script that follows a SET was loaded over this connection.
    has_draw: AtomicBool,
}

impl Deref for Server {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Server {
    /// Runs a script and returns its reply, or an error if the reply grants something that does not
    /// count. With `asking`, a node of a cluster may answer although the slot is not its own yet.
    pub(crate) async fn run<A>(&self, call: &Call<A>, asking: bool) -> Result<A, Failure> {
        let (connection, script) = (&self.connection, call.request.script);
        match (&self.durable, call.effect) {
            (Some(durable), Some(effect)) => {
                return Box::pin(durable.run(connection, call, effect, asking)).await;
            }
            // The call may hand the name on.
            (Some(durable), None) if script.guarded.is_some() && durable.durability.reclaims() => {
                let (value, _) = Box::pin(durable.exchange(connection, call, asking)).await?;
                return Ok(call.answer(connection.check_served(value)?)?);
            }
            _ => {}
        }
        let running = connection.run(&call.request, asking);
        // A server without the script sets a name without a number, so the script is loaded in
        // front of the first such call.
        let value = match script.sets && !self.has_draw.swap(true, Ordering::Relaxed) {
            true => Box::pin(join(connection.load(script), running)).await.1?,
            false => running.await?,
        };
        if script.sets && value == Value::Okay {
            self.has_draw.store(false, Ordering::Relaxed);
        }
        Ok(call.answer(value)?)
    }

    /// Checks a newly connected server, which serves these slots of a cluster. Returns warnings
    /// about it.
    ///
    /// # Errors
    ///
    /// If the server lacks a command or a setting, or its user a right.
    pub(crate) async fn check_durability(&self, slots: &[u16]) -> Result<Vec<String>, StoreError> {
        match &self.durable {
            Some(durable) => durable.check(&self.connection, slots).await,
            None => Ok(Vec::new()),
        }
    }

    /// Takes the slot whose quarantine began with a request over this connection, if the other
    /// slots have not been asked about since.
    pub(crate) fn take_begun(&self) -> Option<u16> {
        self.durable.as_ref()?.begun.lock().take()
    }

    /// Asks about these slots, so that their quarantine begins, too, if they need one.
    pub(crate) async fn spread_quarantine(&self, slots: &[u16]) -> Result<(), StoreError> {
        let Some((quarantine, run_id)) = self.quarantine().await? else { return Ok(()) };
        quarantine.spread(&self.connection, run_id, &quarantine.parts(slots)).await
    }

    /// Declares for an operator that nothing was forgotten: in a cluster, in these slots. Returns
    /// whether there is a quarantine at all.
    pub(crate) async fn end_quarantine(&self, slots: &[u16]) -> Result<bool, StoreError> {
        let Some((quarantine, run_id)) = self.quarantine().await? else { return Ok(false) };
        quarantine.end(&self.connection, run_id, &quarantine.parts(slots)).await?;
        Ok(true)
    }

    async fn quarantine(&self) -> Result<Option<(&Quarantine, &str)>, StoreError> {
        let durability = self.durable.as_ref().map(|durable| &durable.durability);
        match durability.and_then(|durability| durability.quarantine.as_ref()) {
            Some(quarantine) => Ok(Some((quarantine, self.connection.run_id().await?))),
            None => Ok(None),
        }
    }
}

/// The part of a server that makes its grants durable.
struct Durable {
    durability: Arc<Durability>,
    /// Opens the connections for WAIT.
    dialer: Dialer,
    address: Address,
    /// The connection of the server for everything else.
    main: Weak<Connection>,
    /// The parts whose boot record was already read over this connection.
    asked: Mutex<HashSet<Part>>,
    /// The slot whose quarantine began when its boot record was read. The boot records of the other
    /// slots still have to be read.
    begun: Mutex<Option<u16>>,
    waiting: OnceLock<WaitBatcher>,
}

debug_as!(Durable => |it, f| f.debug_tuple("Durable").field(&it.durability).finish());

impl Durable {
    async fn check(
        &self,
        connection: &Connection,
        slots: &[u16],
    ) -> Result<Vec<String>, StoreError> {
        let mut warnings = Vec::new();
        if let Some(replication) = &self.durability.replication {
            warnings.extend(replication.check_server(connection).await?);
        }
        if let Some(quarantine) = &self.durability.quarantine {
            let parts = quarantine.parts(slots);
            let Some((first, others)) = parts.split_first() else { return Ok(warnings) };
            let pause = self.ask(quarantine, connection, *first).await?;
            warnings.extend(
                pause.map(|pause| quarantine::refusal(connection.server(), pause).to_string()),
            );
            if self.begun.lock().take().is_some() {
                // If this fails, the quarantine of each slot begins when the slot is first used.
                drop(quarantine.spread(connection, connection.run_id().await?, others).await);
            }
        }
        Ok(warnings)
    }

    async fn run<A>(
        &self,
        connection: &Connection,
        call: &Call<A>,
        effect: Effect,
        asking: bool,
    ) -> Result<A, Failure> {
        let (quarantine, part) = (self.durability.quarantine.as_ref(), self.part(call));
        if let Some(quarantine) = quarantine {
            // A waiter is allowed to poll during a quarantine, so that it keeps its place.
            let is_newcomer = effect == Effect::Grant;
            if !asking && self.is_to_ask(effect, part) {
                self.ask(quarantine, connection, part).await?;
            }
            if is_newcomer && asking {
                return Err(quarantine::refusal(connection.server(), Pause::Moving).into());
            }
            if is_newcomer {
                quarantine.admit(connection, connection.run_id().await?, part).await?;
            }
        }
        let (value, shortfall) = self.exchange(connection, call, asking).await?;
        let value = match connection.check_served(value) {
            Ok(value) => value,
            Err(failure) => {
                if let Failure::NotServed { refusal, .. } = &failure {
                    // Ask again once the slot is back: the other server may have forgotten
                    // something.
                    self.asked.lock().remove(&part);
                    // Some of the keys are at the other server, perhaps the boot record.
                    if quarantine.is_some()
                        && effect == Effect::Grant
                        && refusal.code() == "TRYAGAIN"
                    {
                        let server = connection.server();
                        return Err(quarantine::refusal(server, Pause::Moving).into());
                    }
                }
                return Err(failure);
            }
        };
        if let (Some(quarantine), Value::Int(_)) = (quarantine, &value)
            && call.request.script.guarded.is_some()
            && let Some(pause) = quarantine.note(connection, part, value.clone())?
        {
            self.note_begun(quarantine, part, Some(pause));
            return Err(quarantine::refusal(connection.server(), pause).into());
        }
        let answer = call.answer(value)?;
        if !(call.is_granted)(&answer) {
            return Ok(answer);
        }
        if asking && quarantine.is_some() && effect.is_new() {
            let refusal = quarantine::refusal(connection.server(), Pause::Moving);
            return Err(refusal.maybe_executed().into());
        }
        shortfall.map_err(StoreError::maybe_executed)?;
        Ok(answer)
    }

    /// The part whose boot record applies to a call.
    fn part<A>(&self, call: &Call<A>) -> Part {
        self.durability.quarantine.as_ref()?.part(call.request.keys().iter().next())
    }

    /// Whether a call first asks whether the server has forgotten anything. The first call on a new
    /// connection does, because a renewal does not check the boot record: after a restart or a
    /// failover, all clients have new connections. A slot may also have been at another server
    /// without the client's notice. A renewal that waits for replicas anyway asks about that, too.
    fn is_to_ask(&self, effect: Effect, part: Part) -> bool {
        let is_again = part.is_some() && effect == Effect::Renewal;
        (is_again && self.durability.replication.is_some()) || !self.asked.lock().contains(&part)
    }

    async fn ask(
        &self,
        quarantine: &Quarantine,
        connection: &Connection,
        part: Part,
    ) -> Result<Option<Pause>, StoreError> {
        let pause = quarantine.ask(connection, connection.run_id().await?, part).await?;
        if pause != Some(Pause::Moving) {
            self.asked.lock().insert(part);
        }
        self.note_begun(quarantine, part, pause);
        Ok(pause)
    }

    fn note_begun(&self, quarantine: &Quarantine, part: Part, pause: Option<Pause>) {
        if part.is_some() && quarantine.has_just_begun(pause) {
            *self.begun.lock() = part;
        }
    }

    /// Sends a script, and waits for replicas if it may grant something. Loads the script if the
    /// server does not have it.
    async fn exchange<A>(&self, connection: &Connection, call: &Call<A>, asking: bool) -> Judged {
        let guarded = match &self.durability.quarantine {
            Some(quarantine) => quarantine.guard(call, self.part(call), connection.run_id().await?),
            None => None,
        };
        let (script, command) =
            guarded.unwrap_or_else(|| (call.request.script, call.request.command()));
        let waits = self.durability.replication.is_some() && call.effect.is_some();
        let mut tries = 0;
        loop {
            let (value, shortfall) = match (waits, asking) {
                (true, _) => {
                    let open = || {
                        WaitBatcher::open(&self.durability, &self.dialer, &self.address, &self.main)
                    };
                    self.waiting.get_or_init(open).submit(command.clone(), asking).await?
                }
                (false, true) => (connection.ask_moving(command.clone()).await?, Ok(())),
                (false, false) => (connection.send(&command).await?, Ok(())),
            };
            if !is_to_load(&value, &mut tries) {
                return Ok((value, shortfall));
            }
            connection.load(script).await?;
        }
    }
}
