//! A held lease. What it knows is asked without I/O; its verbs take turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::admin::HolderId;
use leasehold::election::Leadership;
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
use crate::options::maybe_span;
use crate::process::{self, lock};
use crate::queue::Queue;
use crate::told;
use crate::verb::Verb;

/// A lease of the library.
pub(crate) enum Lease {
    Plain(Guard),
    Leader(Leadership),
}

impl Lease {
    fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Leader(leadership) => leadership.guard(),
        }
    }
}

impl From<Guard> for Lease {
    fn from(guard: Guard) -> Self {
        Self::Plain(guard)
    }
}

/// Where the lease is.
enum Place {
    Here(Lease),
    /// A verb has it that changes it.
    AtWork,
    LetGo,
}

/// What changes with an upgrade.
struct Facts {
    mode: Mode,
    tokens: Vec<FencingToken>,
}

impl Facts {
    fn of(guard: &Guard) -> Self {
        Self { mode: guard.mode(), tokens: guard.tokens().map(|(_, token)| token).collect() }
    }
}

/// What a guard and its verbs share.
struct Slot {
    place: Mutex<Place>,
    facts: Mutex<Facts>,
    /// One verb at a time: a release waits for a renewal to end.
    turn: tokio::sync::Mutex<()>,
}

/// A lease and all that is known of it.
pub(crate) struct GuardCore {
    client: Arc<Client>,
    made_in: MadeIn,
    names: Vec<LockName>,
    holder: HolderId,
    /// Empty once this is dropped.
    shared: Option<(Arc<Slot>, Lost)>,
    is_let_go: AtomicBool,
}

/// A lease that a verb has taken out of its slot; dropping this puts it back.
struct Taken {
    slot: Arc<Slot>,
    lease: Option<Lease>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            *lock(&self.slot.facts) = Facts::of(lease.guard());
            *lock(&self.slot.place) = Place::Here(lease);
        }
    }
}

impl Slot {
    fn take(self: &Arc<Self>) -> Option<Taken> {
        let mut place = lock(&self.place);
        match std::mem::replace(&mut *place, Place::AtWork) {
            Place::Here(lease) => Some(Taken { slot: Arc::clone(self), lease: Some(lease) }),
            other => {
                *place = other;
                None
            }
        }
    }

    fn let_go(&self) -> Option<Lease> {
        match std::mem::replace(&mut *lock(&self.place), Place::LetGo) {
            Place::Here(lease) => Some(lease),
            Place::AtWork | Place::LetGo => None,
        }
    }

    fn is_let_go(&self) -> bool {
        matches!(*lock(&self.place), Place::LetGo)
    }

    /// What the lease says, unless a verb has it.
    fn ask<T>(&self, what: impl FnOnce(&Guard) -> T) -> Option<T> {
        match &*lock(&self.place) {
            Place::Here(lease) => Some(what(lease.guard())),
            Place::AtWork | Place::LetGo => None,
        }
    }
}

impl GuardCore {
    pub(crate) fn new(client: &Arc<Client>, lease: Lease) -> Self {
        let guard = lease.guard();
        let names = guard.tokens().map(|(name, _)| name.clone()).collect();
        let (facts, holder, lost) = (Facts::of(guard), guard.holder(), guard.lost());
        let slot = Slot {
            place: Mutex::new(Place::Here(lease)),
            facts: Mutex::new(facts),
            turn: tokio::sync::Mutex::default(),
        };
        Self {
            client: Arc::clone(client),
            made_in: MadeIn::this(),
            names,
            holder,
            shared: Some((Arc::new(slot), lost)),
            is_let_go: AtomicBool::new(false),
        }
    }

    fn shared(&self) -> Result<&(Arc<Slot>, Lost), Failure> {
        match &self.shared {
            _ if self.made_in.is_another() => Err(Failure::OfParent(self.names[0].clone())),
            Some(shared) => Ok(shared),
            None => Err(self.let_go()),
        }
    }

    fn let_go(&self) -> Failure {
        Failure::LetGo(self.names[0].clone(), self.facts(|facts| facts.tokens[0]))
    }

    /// What is known, in whatever process; after a fork a lock may be that of another thread.
    fn facts<T>(&self, what: impl FnOnce(&Facts) -> T) -> T {
        match &self.shared {
            Some((slot, _)) => what(&lock(&slot.facts)),
            None => what(&Facts { mode: Mode::Exclusive, tokens: Vec::new() }),
        }
    }

    /// For a verb of a guard that was not let go.
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

    fn verb(&self, doing: impl Future<Output = Result<Done, Failure>> + Send + 'static) -> Verb {
        Verb::new(&self.client.driver, doing)
    }

    /// A verb that has the lease for itself meanwhile.
    fn change<F>(&self, change: impl FnOnce(Taken) -> F + Send + 'static) -> Result<Verb, Failure>
    where
        F: Future<Output = Result<Done, Failure>> + Send + 'static,
    {
        let (slot, gone) = (self.ready()?, self.let_go());
        Ok(self.verb(async move {
            let _turn = slot.turn.lock().await;
            match slot.take() {
                Some(taken) => change(taken).await,
                None => Err(gone),
            }
        }))
    }

    /// Has the loss come to a loop.
    fn watch(&self, queue: &Arc<Queue>, key: u64) {
        let Ok((slot, lost)) = self.shared() else { return };
        if self.names.len() == 1 {
            if let Some(watches) = self.client.watches() {
                watches.add(self.holder, Arc::clone(queue), key);
            }
        } else {
            // If a guard has several names, each may be lost by itself.
            let queue = Arc::clone(queue);
            slot.ask(|guard| {
                guard.on_lost(move |reason| queue.push(key, Ok(Done::Reason(Some(reason)))));
            });
        }
        if let Some(reason) = lost.loss() {
            queue.push(key, Ok(Done::Reason(Some(reason))));
        }
    }

    fn unwatch(&self) {
        if let Some(watches) = self.client.watches() {
            watches.remove(self.holder);
        }
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
            // Nothing is given back by this, so that nothing is waited for.
            drop(shared);
        } else {
            process::drop_detached(shared);
        }
    }
}

/// What Python wraps as `Guard` and `AsyncGuard`.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct NativeGuard(pub(crate) Box<GuardCore>);

impl NativeGuard {
    fn raised<T>(py: Python<'_>, result: Result<T, Failure>) -> PyResult<T> {
        result.map_err(|failure| failure.raise(py))
    }
}

#[pymethods]
impl NativeGuard {
    #[getter]
    fn name(&self) -> &str {
        self.0.names[0].as_str()
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.names.iter().map(LockName::as_str).collect()
    }

    #[getter]
    fn token(&self) -> u64 {
        self.0.facts(|facts| facts.tokens[0].get())
    }

    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tokens = self.0.facts(|facts| facts.tokens.clone());
        let dict = PyDict::new(py);
        for (name, token) in self.0.names.iter().zip(tokens) {
            dict.set_item(name.as_str(), token.get())?;
        }
        Ok(dict)
    }

    #[getter]
    fn mode(&self) -> &'static str {
        let now = self.0.shared().ok().and_then(|(slot, _)| slot.ask(Guard::mode));
        now.unwrap_or_else(|| self.0.facts(|facts| facts.mode)).as_str()
    }

    #[getter]
    fn holder(&self) -> String {
        self.0.holder.to_string()
    }

    /// Why it is not held.
    #[getter]
    fn loss(&self) -> Option<&'static str> {
        self.0.reason()
    }

    #[getter]
    fn is_held(&self) -> bool {
        self.0.reason().is_none()
    }

    /// Has the loss come to a loop, under the key that this gives.
    fn watch(&self, completions: &Completions) -> u64 {
        let (key, queue) = completions.want_loss();
        self.0.watch(&queue, key);
        key
    }

    /// Nobody wants to hear of the guard's loss any more.
    fn unwatch(&self, completions: &Completions, key: u64) {
        completions.cancel(key);
        self.0.unwatch();
    }

    /// Whether nobody has let go of it, in this process.
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

    fn ensure_held(&self, py: Python<'_>) -> PyResult<()> {
        let slot = Self::raised(py, self.0.ready())?;
        let asked = slot.ask(Guard::ensure_held);
        if let Some(held) = asked {
            return Self::raised(py, held.map_err(Failure::from));
        }
        match self.0.shared().ok().and_then(|(_, lost)| lost.loss()) {
            None => Ok(()),
            Some(reason) => {
                let token = self.0.facts(|facts| facts.tokens[0]);
                let lost = leasehold::Error::lost(self.0.names[0].clone(), token, reason);
                Err(Failure::from(lost).raise(py))
            }
        }
    }

    /// Tells the thread for events of the loss, or that there will be none.
    fn on_lost(&self, py: Python<'_>, key: u64) -> PyResult<()> {
        let slot = Self::raised(py, self.0.ready())?;
        let callback = told::Callback::new(key);
        slot.ask(|guard| guard.on_lost(move |reason| callback.call(reason)));
        Ok(())
    }

    fn release(&self, py: Python<'_>) -> PyResult<Option<Verb>> {
        let Ok((slot, _)) = self.0.shared() else { return Ok(None) };
        if self.0.is_let_go.swap(true, Ordering::AcqRel) {
            return Ok(None);
        }
        let slot = Arc::clone(slot);
        let _ = py;
        let verb = self.0.verb(async move {
            let _turn = slot.turn.lock().await;
            match slot.let_go() {
                Some(Lease::Plain(guard)) => guard.release().await?,
                Some(Lease::Leader(leadership)) => leadership.resign().await?,
                None => {}
            }
            Ok(Done::Nothing)
        });
        Ok(Some(verb.going_on()))
    }

    #[pyo3(signature = (ttl))]
    fn renew(&self, py: Python<'_>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let ttl = maybe_span(ttl, "ttl")?;
        let slot = Self::raised(py, self.0.ready())?;
        let gone = self.0.let_go();
        let verb = self.0.verb(async move {
            let _turn = slot.turn.lock().await;
            // A second guard on the lease, so that others may ask this one meanwhile.
            let guard = slot.ask(Guard::reenter).ok_or(gone)??;
            let left = match ttl {
                Some(ttl) => guard.renew_for(ttl).await,
                None => guard.renew().await,
            };
            Ok(Done::Seconds(left?))
        });
        Ok(verb.going_on())
    }

    fn reenter(&self, py: Python<'_>) -> PyResult<Self> {
        let slot = Self::raised(py, self.0.ready())?;
        match slot.ask(Guard::reenter) {
            Some(again) => {
                let again = Self::raised(py, again.map_err(Failure::from))?;
                Ok(Self(Box::new(GuardCore::new(&self.0.client, again.into()))))
            }
            None => Err(busy(py)),
        }
    }

    #[pyo3(signature = (timeout))]
    fn upgrade(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let limit = maybe_span(timeout, "timeout")?;
        let verb = self.0.change(move |mut taken| async move {
            if let Some(Lease::Plain(guard)) = &mut taken.lease {
                match limit {
                    Some(limit) => guard.upgrade_within(limit).await?,
                    None => guard.upgrade().await?,
                }
            }
            Ok(Done::Nothing)
        });
        Self::raised(py, verb)
    }

    fn try_upgrade(&self, py: Python<'_>) -> PyResult<Verb> {
        let verb = self.0.change(|mut taken| async move {
            Ok(Done::Flag(match &mut taken.lease {
                Some(Lease::Plain(guard)) => guard.try_upgrade().await?,
                Some(Lease::Leader(_)) | None => true,
            }))
        });
        Self::raised(py, verb)
    }

    fn downgrade(&self, py: Python<'_>) -> PyResult<Verb> {
        let verb = self.0.change(|mut taken| async move {
            match &mut taken.lease {
                Some(Lease::Plain(guard)) => guard.downgrade().await?,
                Some(Lease::Leader(_)) | None => {
                    let why = "a leadership cannot be downgraded: resign";
                    return Err(InvalidInput::new("mode", why).into());
                }
            }
            Ok(Done::Nothing)
        });
        Self::raised(py, verb.map(Verb::going_on))
    }

    fn proclaim(&self, py: Python<'_>, value: String) -> PyResult<Verb> {
        let verb = self.0.change(|taken| async move {
            if let Some(Lease::Leader(leadership)) = &taken.lease {
                leadership.proclaim(value).await?;
            }
            Ok(Done::Nothing)
        });
        Self::raised(py, verb)
    }

    /// Waits for the end: why it was lost, or none for a release or the limit.
    #[pyo3(signature = (timeout))]
    fn lost(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<Verb> {
        let limit = maybe_span(timeout, "timeout")?;
        let (_, lost) = Self::raised(py, self.0.shared())?;
        let lost = lost.clone();
        Ok(self.0.verb(async move {
            let reason = match limit {
                Some(limit) => tokio::time::timeout(limit, lost).await.ok().flatten(),
                None => lost.await,
            };
            Ok(Done::Reason(reason))
        }))
    }

    /// The lease as text; it is out of the guard then.
    #[pyo3(name = "into_lease")]
    fn hand_out(&self, py: Python<'_>) -> PyResult<String> {
        let slot = Self::raised(py, self.0.ready())?;
        let taken = slot.turn.try_lock().ok().and_then(|turn| Some((slot.take()?, turn)));
        let Some((mut taken, _turn)) = taken else { return Err(busy(py)) };
        let lease = match taken.lease.take() {
            Some(Lease::Plain(guard)) => guard,
            lease => {
                taken.lease = lease;
                let why = "a leadership cannot be handed out: resign";
                return Err(Failure::from(InvalidInput::new("lease", why)).raise(py));
            }
        };
        // The library hands out what nobody else has, and lets go of it otherwise.
        if let Err(error) = lease.ensure_held() {
            taken.lease = Some(lease.into());
            return Err(Failure::from(error).raise(py));
        }
        let handed = py.detach(|| lease.into_lease());
        self.0.is_let_go.store(true, Ordering::Release);
        *lock(&slot.place) = Place::LetGo;
        Ok(Self::raised(py, handed.map_err(Failure::from))?.to_string())
    }
}

fn busy(py: Python<'_>) -> PyErr {
    let why = "another verb of this guard is at work: wait for it";
    Failure::from(InvalidInput::new("guard", why)).raise(py)
}

#[pymethods]
impl NativeClient {
    fn adopt(&self, py: Python<'_>, lease: &str) -> PyResult<Verb> {
        let lease = lease.parse().map_err(|why| refused(py, why))?;
        let client = Arc::clone(&self.0);
        Ok(self.verb(async move {
            let guard = client.here().await?.client.adopt(lease).await?;
            Ok(Done::Object(Box::new(GuardCore::new(&client, guard.into()))))
        }))
    }
}
