//! A held lease and its verbs, which run one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::admin::HolderId;
use leasehold::error::InvalidInput;
use leasehold::lease::Mode;
use leasehold::process::MadeIn;
use leasehold::{FencingToken, Guard, LockName, Lost};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::client::{Client, NativeClient};
use crate::completions::Completions;
use crate::done::{Done, Give};
use crate::errors::{Failure, refused};
use crate::options::{maybe_span, maybe_ttl};
use crate::process;
use crate::queue::Queue;
use crate::slot::{Lease, Leaving, Slot, Taken};
use crate::told;
use crate::verb::Verb;

/// A lease, and a copy of its facts.
pub(crate) struct GuardCore {
    client: Arc<Client>,
    made_in: MadeIn,
    /// The names with their tokens.
    granted: Vec<(LockName, FencingToken)>,
    mode: Mode,
    holder: HolderId,
    /// `None` once this is dropped.
    shared: Option<(Arc<Slot>, Lost)>,
    is_let_go: AtomicBool,
}

impl GuardCore {
    pub(crate) fn new(client: &Arc<Client>, lease: Lease) -> Self {
        let guard = lease.guard();
        let granted = guard.tokens().map(|(name, token)| (name.clone(), token)).collect();
        let (mode, holder, lost) = (guard.mode(), guard.holder(), guard.lost());
        Self {
            client: Arc::clone(client),
            made_in: MadeIn::this(),
            granted,
            mode,
            holder,
            shared: Some((Arc::new(Slot::new(lease)), lost)),
            is_let_go: AtomicBool::new(false),
        }
    }

    fn name(&self) -> &LockName {
        &self.granted[0].0
    }

    fn shared(&self) -> Result<&(Arc<Slot>, Lost), Failure> {
        match &self.shared {
            _ if self.made_in.is_another() => Err(Failure::OfParent(self.name().clone())),
            Some(shared) => Ok(shared),
            None => Err(self.let_go()),
        }
    }

    fn let_go(&self) -> Failure {
        Failure::LetGo(self.name().clone(), self.token())
    }

    fn token(&self) -> FencingToken {
        self.granted[0].1
    }

    /// The slot, for a verb. An error if the guard was released.
    fn ready(&self) -> Result<Arc<Slot>, Failure> {
        let (slot, _) = self.shared()?;
        match self.is_let_go.load(Ordering::Acquire) {
            true => Err(self.let_go()),
            false => Ok(Arc::clone(slot)),
        }
    }

    fn reason(&self) -> Option<&'static str> {
        match self.shared() {
            Err(_) => Some("forked"),
            Ok((_, lost)) => match lost.loss() {
                Some(reason) => Some(reason.as_str()),
                None => self.is_let_go.load(Ordering::Acquire).then_some("released"),
            },
        }
    }

    /// A verb that has exclusive use of the lease while it runs.
    fn change<F>(&self, change: impl FnOnce(Taken) -> F + Send + 'static) -> Result<Verb, Failure>
    where
        F: Future<Output = Result<Done, Failure>> + Send + 'static,
    {
        let (slot, gone) = (self.ready()?, self.let_go());
        Ok(Verb::new(async move {
            let _turn = slot.turn.lock().await;
            match slot.take() {
                Some(taken) => change(taken).await,
                None => Err(gone),
            }
        }))
    }

    /// Sends the loss to the queue of a loop.
    fn watch(&self, queue: &Arc<Queue>, key: u64) {
        let Ok((_, lost)) = self.shared() else { return };
        match self.client.watches() {
            Some(watches) if self.granted.len() == 1 => {
                watches.add(self.holder, Arc::clone(queue), key);
            }
            // If a guard has several names, each name can be lost separately.
            _ => {
                let queue = Arc::clone(queue);
                lost.clone().call_back(move |reason| queue.lost(key, reason));
            }
        }
        if let Some(reason) = lost.loss() {
            queue.lost(key, reason);
        }
    }

    fn unwatch(&self, key: u64) {
        if let Some(watches) = self.client.watches() {
            watches.remove(self.holder, key);
        }
    }
}

impl Done {
    /// A new guard of a lease that was granted to a client.
    pub(crate) fn guard(client: &Arc<Client>, lease: Lease) -> Self {
        Self::Object(Box::new(GuardCore::new(client, lease)))
    }
}

impl Give for GuardCore {
    fn give(self: Box<Self>, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        Ok(Bound::new(py, NativeGuard(self))?.into_any())
    }
}

impl Drop for GuardCore {
    fn drop(&mut self) {
        let shared = self.shared.take();
        if self.made_in.is_another() {
            std::mem::forget(shared);
        } else if shared.as_ref().is_some_and(|(slot, _)| slot.is_let_go()) {
            // The lease was already released, so this drop does not block.
            drop(shared);
        } else {
            process::drop_detached(shared);
        }
    }
}

/// The native object inside `Guard` and `AsyncGuard`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeGuard(pub(crate) Box<GuardCore>);

#[pymethods]
impl NativeGuard {
    #[getter]
    fn name(&self) -> &str {
        self.0.name().as_str()
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.granted.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[getter]
    fn token(&self) -> u64 {
        self.0.token().get()
    }

    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, token) in &self.0.granted {
            dict.set_item(name.as_str(), token.get())?;
        }
        Ok(dict)
    }

    #[getter]
    fn mode(&self) -> &'static str {
        self.0.mode.as_str()
    }

    #[getter]
    fn holder(&self) -> String {
        self.0.holder.to_string()
    }

    /// The reason why the lease is no longer held.
    #[getter]
    fn loss(&self) -> Option<&'static str> {
        self.0.reason()
    }

    #[getter]
    fn is_held(&self) -> bool {
        self.0.reason().is_none()
    }

    /// Sends the loss to the queue of a loop, under the returned key.
    fn watch(&self, completions: &Completions) -> u64 {
        let (key, queue) = completions.want_loss();
        self.0.watch(&queue, key);
        key
    }

    /// Stops sending the loss of the guard under this key.
    fn unwatch(&self, completions: &Completions, key: u64) {
        completions.cancel(key);
        self.0.unwatch(key);
    }

    /// Whether the guard belongs to this process and was not released.
    #[getter]
    fn is_kept(&self) -> bool {
        !self.0.made_in.is_another() && !self.0.is_let_go.load(Ordering::Acquire)
    }

    #[getter]
    fn validity(&self) -> f64 {
        let is_let_go = self.0.is_let_go.load(Ordering::Acquire);
        let shared = self.0.shared().ok().filter(|_| !is_let_go);
        shared.map_or(Duration::ZERO, |(_, lost)| lost.validity()).as_secs_f64()
    }

    fn ensure_held(&self) -> Result<(), Failure> {
        let slot = self.0.ready()?;
        if let Some(held) = slot.ask(Guard::ensure_held) {
            return Ok(held?);
        }
        match self.0.shared()?.1.loss() {
            None => Ok(()),
            Some(reason) => {
                let (name, token) = (self.0.name().clone(), self.0.token());
                Err(leasehold::Error::lost(name, token, reason).into())
            }
        }
    }

    /// Queues an item for the event thread: the loss, or the guard's end without a loss.
    fn on_lost(&self, key: u64) -> Result<(), Failure> {
        self.0.ready()?;
        let callback = told::Callback::new(key);
        self.0.shared()?.1.clone().call_back(move |reason| callback.call(reason));
        Ok(())
    }

    /// Releases the lease. `done` says that the run under it has succeeded.
    #[pyo3(signature = (done = false))]
    fn release(&self, done: bool) -> Option<Verb> {
        let slot = Arc::clone(&self.0.shared().ok()?.0);
        if self.0.is_let_go.swap(true, Ordering::AcqRel) {
            return None;
        }
        // A signal handler may end the wait before this verb begins, or while another has the turn.
        let leaving = Leaving(slot);
        let verb = Verb::new(async move {
            let _turn = leaving.0.turn.lock().await;
            match leaving.0.let_go() {
                Some(Lease::Plain(guard)) if done => guard.done().await?,
                Some(Lease::Plain(guard)) => guard.release().await?,
                Some(Lease::Leader(leadership)) => leadership.resign().await?,
                None => {}
            }
            Ok(Done::Nothing)
        });
        Some(verb.going_on().at_once(self.0.client.waits_for_no_disk()))
    }

    #[pyo3(signature = (ttl))]
    fn renew(&self, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let ttl = maybe_ttl(ttl)?;
        let slot = self.0.ready()?;
        let gone = self.0.let_go();
        let verb = Verb::new(async move {
            let _turn = slot.turn.lock().await;
            // A second guard of the lease, so that other threads can use the first one meanwhile.
            let guard = slot.ask(Guard::reenter).ok_or(gone)??;
            let left = match ttl {
                Some(ttl) => guard.renew_for(ttl).await,
                None => guard.renew().await,
            };
            Ok(Done::Seconds(left?))
        });
        Ok(verb.going_on())
    }

    fn reenter(&self) -> Result<Self, Failure> {
        let again = self.0.ready()?.ask(Guard::reenter).ok_or_else(busy)??;
        Ok(Self(Box::new(GuardCore::new(&self.0.client, again.into()))))
    }

    fn proclaim(&self, value: String) -> Result<Verb, Failure> {
        self.0.change(|taken| async move {
            if let Some(Lease::Leader(leadership)) = &taken.lease {
                leadership.proclaim(value).await?;
            }
            Ok(Done::Nothing)
        })
    }

    /// Waits for the end of the lease. Returns the reason of a loss, or none after a release or
    /// after `timeout`.
    #[pyo3(signature = (timeout))]
    fn lost(&self, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let limit = maybe_span(timeout, "timeout")?;
        let (_, lost) = self.0.shared()?;
        let lost = lost.clone();
        Ok(Verb::new(async move {
            let reason = match limit {
                Some(limit) => tokio::time::timeout(limit, lost).await.ok().flatten(),
                None => lost.await,
            };
            Ok(Done::Reason(reason))
        }))
    }

    /// Takes the lease out of the guard, and returns it as text.
    #[pyo3(name = "into_lease")]
    fn hand_out(&self, py: Python<'_>) -> Result<String, Failure> {
        let slot = self.0.ready()?;
        let taken = slot.turn.try_lock().ok().and_then(|turn| Some((slot.take()?, turn)));
        let (mut taken, _turn) = taken.ok_or_else(busy)?;
        let lease = match taken.lease.take() {
            Some(Lease::Plain(guard)) => guard,
            lease => {
                taken.lease = lease;
                let why = "a leadership cannot be handed out: resign";
                return Err(InvalidInput::new("lease", why).into());
            }
        };
        // `into_lease` consumes its guard even if it fails, so its refusals come first.
        if let Err(error) = lease.check_handing_out() {
            taken.lease = Some(lease.into());
            return Err(error.into());
        }
        let handed = py.detach(|| lease.into_lease());
        self.0.is_let_go.store(true, Ordering::Release);
        slot.let_go();
        Ok(handed?.to_string())
    }
}

fn busy() -> Failure {
    InvalidInput::new("guard", "another verb of this guard is at work: wait for it").into()
}

#[pymethods]
impl NativeClient {
    fn adopt(&self, lease: &str) -> PyResult<Verb> {
        let lease = lease.parse().map_err(refused)?;
        let client = Arc::clone(&self.0);
        Ok(Verb::new(async move {
            let guard = client.here().await?.client.adopt(lease).await?;
            Ok(Done::guard(&client, guard.into()))
        }))
    }
}
