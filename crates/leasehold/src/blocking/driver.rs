//! The runtime of a blocking client.

use std::fmt;
use std::sync::{Arc, OnceLock};

use leasehold_core::{InvalidInput, Result, StoreError, StoreErrorKind};
use tokio::runtime::{Handle, Runtime};

use super::Cancel;

/// What drives the requests of a blocking client while one of its callers waits. Renewals do not
/// depend on it: they are the keeper's.
///
/// A crate with blocking names of its own keeps one beside each thing that has connections, since
/// these belong to the runtime on which they were opened.
#[derive(Clone, Default)]
pub struct Driver(Arc<Shared>);

/// A runtime, made by the first who waits.
#[derive(Default)]
struct Shared(OnceLock<Runtime>);

impl Shared {
    fn runtime(&self) -> Result<&Runtime> {
        if let Some(runtime) = self.0.get() {
            return Ok(runtime);
        }
        let made = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let made = made.map_err(|error| {
            let message = format!("no runtime for the blocking client: {error}");
            StoreError::new(StoreErrorKind::Full, message).with_source(error)
        })?;
        // Another thread may have been faster; nothing runs on ours, which is dropped then.
        Ok(self.0.get_or_init(|| made))
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
        self.0.runtime()?.block_on(verb)
    }

    pub(super) fn wait_unless<T>(
        &self,
        cancel: Option<&Cancel>,
        verb: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match cancel {
            Some(cancel) => self.wait(cancel.or(verb)),
            None => self.wait(verb),
        }
    }
}

impl Drop for Shared {
    /// Never blocks, and may be dropped inside a runtime.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driver")
    }
}
