//! The runtime of a blocking client.

use std::fmt;
use std::sync::{Arc, OnceLock};

use leasehold_core::{InvalidInput, Result, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Runtime};

use super::Cancel;
use crate::process::PerProcess;

/// The driver of a blocking client's requests, which works while one of its callers waits. Renewals
/// do not depend on it: they are the keeper's.
///
/// A crate with its own blocking names keeps a driver beside each value that has connections,
/// because connections belong to the runtime that opened them.
#[derive(Clone, Default)]
pub struct Driver {
    shared: Arc<Runtimes>,
    cancel: Option<Cancel>,
}

/// A runtime for each process, made by the first caller that waits.
#[derive(Default)]
struct Runtimes(PerProcess<OnceLock<Runtime>>);

impl Runtimes {
    fn runtime(&self) -> Result<&Runtime> {
        let slot = self.0.this()?;
        if let Some(runtime) = slot.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let made = made.map_err(|error| {
            let message = format!("no runtime for the blocking client: {error}");
            StoreError::new(StoreErrorKind::Full, message).with_source(error)
        })?;
        // Another thread may have been faster; nothing runs on ours, which is dropped then.
        Ok(slot.get_or_init(|| made))
    }
}

impl Driver {
    /// Waits until `verb` has ended.
    ///
    /// # Errors
    ///
    /// What it returns; [`Error::Invalid`](crate::Error::Invalid) inside an async runtime, which
    /// this would block.
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

    /// The same, whose waits `cancel` ends.
    pub(super) fn cancelled_by(self, cancel: &Cancel) -> Self {
        Self { cancel: Some(cancel.clone()), ..self }
    }

    /// The same, whose waits nobody ends.
    pub(super) fn not_cancelled(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), cancel: None }
    }
}

impl Drop for Runtimes {
    /// Never blocks, and may be dropped inside a runtime. A forked child leaves that of its parent
    /// alone, with which it shares its epoll and sockets.
    fn drop(&mut self) {
        let (own, others) = self.0.split_mut();
        if let Some(runtime) = own.and_then(OnceLock::take) {
            runtime.shutdown_background();
        }
        others.into_iter().for_each(|runtime| std::mem::forget(runtime.take()));
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
