//! The runtime of a blocking client.

use std::fmt;
use std::sync::{Arc, OnceLock};

use leasehold_core::{Error, InvalidInput, Result, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Runtime};

use super::Cancel;
use crate::process::MadeIn;

/// The driver of a blocking client's requests, which runs while a caller of the client waits.
/// Renewals do not depend on the driver: the keeper sends them.
///
/// Another crate with blocking types stores one driver in each object that owns connections,
/// because a connection belongs to the runtime that opened it.
#[derive(Clone, Default)]
pub struct Driver {
    shared: Arc<SharedRuntime>,
    cancel: Option<Cancel>,
}

/// The runtime, made by the first caller that waits.
struct SharedRuntime {
    made_in: MadeIn,
    runtime: OnceLock<Runtime>,
}

impl Default for SharedRuntime {
    fn default() -> Self {
        Self { made_in: MadeIn::this(), runtime: OnceLock::new() }
    }
}

impl SharedRuntime {
    fn runtime(&self) -> Result<&Runtime> {
        if self.made_in.is_another() {
            return Err(Error::Forked);
        }
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let made = made.map_err(|error| {
            let message = format!("no runtime for the blocking client: {error}");
            StoreError::new(StoreErrorKind::Full, message).with_source(error)
        })?;
        // Another thread may have been faster. Then our runtime, on which nothing runs, is dropped.
        Ok(self.runtime.get_or_init(|| made))
    }
}

impl Driver {
    /// Waits until `verb` has ended.
    ///
    /// # Errors
    ///
    /// The errors of `verb`; [`Error::Invalid`] inside an async runtime, because this call would
    /// block it; [`Error::Forked`] in a child of the process that made the driver.
    pub fn wait<T>(&self, verb: impl Future<Output = Result<T>>) -> Result<T> {
        if Handle::try_current().is_ok() {
            let why = "a blocking call inside an async runtime would block it: use \
                       `leasehold::Client` there";
            return Err(InvalidInput::new("runtime", why).into());
        }
        let runtime = self.shared.runtime()?;
        match &self.cancel {
            Some(cancel) => runtime.block_on(cancel.or(verb)),
            None => runtime.block_on(verb),
        }
    }

    /// The same driver, but `cancel` ends its waits.
    pub(super) fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// The same driver, but nothing ends its waits.
    pub(super) fn not_cancelled(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), cancel: None }
    }
}

impl Drop for SharedRuntime {
    /// The drop never blocks, and may happen inside a runtime. A forked child leaves the runtime of
    /// its parent alone, because the two share epoll and sockets.
    fn drop(&mut self) {
        match self.runtime.take() {
            runtime if self.made_in.is_another() => std::mem::forget(runtime),
            runtime => drop(runtime.map(Runtime::shutdown_background)),
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
