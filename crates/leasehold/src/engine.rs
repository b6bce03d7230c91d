//! What a client and all that it makes share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_core::backoff::Jitter;
use leasehold_core::{BoxFuture, Error, HolderId, HolderInfo, LeaseOptions, Result};
use tokio::sync::OnceCell;

use crate::keeper::Keeper;
use crate::process::PerProcess;

/// Makes the engine of a client anew, in a forked child.
pub(crate) type Remake = dyn Fn() -> BoxFuture<'static, Result<Engine>> + Send + Sync;

/// A client's identity, defaults and keeper.
pub(crate) struct Engine {
    pub(crate) keeper: Arc<Keeper>,
    pub(crate) defaults: LeaseOptions,
    attempts: AtomicU64,
    secret: u64,
    seeds: AtomicU64,
    /// Unless its store was given as a value.
    remake: Option<Arc<Remake>>,
    /// The same client in children that were forked.
    successors: PerProcess<OnceCell<Arc<Engine>>>,
}

impl Engine {
    pub(crate) fn new(keeper: Arc<Keeper>, defaults: LeaseOptions, secret: u64) -> Self {
        Self {
            keeper,
            defaults,
            attempts: AtomicU64::new(0),
            secret,
            seeds: AtomicU64::new(Jitter::new(!secret).next_u64()),
            remake: None,
            successors: PerProcess::default(),
        }
    }

    /// The same, but a forked child makes it anew.
    pub(crate) fn with_remake(self, remake: Arc<Remake>) -> Self {
        Self { remake: Some(remake), ..self }
    }

    /// The same client in this process, which was forked, with a new identity and a new connection.
    /// The first call makes it.
    async fn successor(&self) -> Result<&Arc<Self>> {
        let make = || async {
            let remake = self.remake.as_ref().ok_or(Error::Forked)?;
            let made = Arc::new(remake().await?);
            // Until the last handle of this one is gone.
            made.keeper.add_handle();
            Ok::<_, Error>(made)
        };
        self.successors.this()?.get_or_try_init(make).await
    }

    /// That of this process, if it was used here.
    fn known_successor(&self) -> Option<&Self> {
        self.successors.this().ok()?.get().map(|made| &**made)
    }

    /// The identity of a new attempt, and the number only it knows.
    pub(crate) fn next_attempt(&self) -> (HolderId, u64) {
        let attempt = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let nonce = Jitter::new(self.secret ^ attempt).next_u64();
        (HolderId { client: self.keeper.client, attempt }, nonce)
    }

    /// Jitter that no other call of this client draws, nor of another.
    pub(crate) fn jitter(&self) -> Jitter {
        Jitter::new(Jitter::new(self.seeds.fetch_add(1, Ordering::Relaxed)).next_u64())
    }

    pub(crate) fn info(&self, label: Option<String>) -> HolderInfo {
        self.keeper.info(label)
    }
}

/// An engine in the hands of somebody who may ask for leases. While there is one, or a lease, the
/// keeper keeps its connection.
#[derive(Debug)]
pub(crate) struct Handle(Arc<Engine>);

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        engine.keeper.add_handle();
        Self(engine)
    }
}

impl Handle {
    /// The engine of this process, which a forked child makes anew.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] if it cannot, and why the store could not be opened.
    pub(crate) async fn here(&self) -> Result<&Engine> {
        match self.0.keeper.is_of_parent() {
            false => Ok(&self.0),
            // Boxed, so that the future of a verb stays small.
            true => Ok(Box::pin(self.0.successor()).await?),
        }
    }

    /// As [`here`](Self::here), for what goes on using it.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) async fn handle_here(&self) -> Result<Self> {
        match self.0.keeper.is_of_parent() {
            false => Ok(self.clone()),
            true => Ok(Self::new(Arc::clone(self.0.successor().await?))),
        }
    }

    /// The engine of this process, unless that is a forked child that has not used it.
    pub(crate) fn known(&self) -> Option<&Engine> {
        match self.0.keeper.is_of_parent() {
            false => Some(&self.0),
            true => self.0.known_successor(),
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("keeper", &self.keeper)
            .field("defaults", &self.defaults)
            .finish_non_exhaustive()
    }
}

impl std::ops::Deref for Handle {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.0))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let was_last = self.0.keeper.drop_handle();
        if self.0.keeper.forget_parents() {
            std::mem::forget(Arc::clone(&self.0));
        }
        if was_last
            && let Some(engine) = self.known()
            && (std::ptr::eq(engine, &raw const *self.0) || engine.keeper.drop_handle())
        {
            engine.keeper.end();
        }
    }
}
