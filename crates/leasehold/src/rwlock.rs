//! Many readers or one writer.

use leasehold_core::{InvalidInput, LockName, Mode};

use crate::keeper::Handle;
use crate::lock::Lock;

/// Many readers or one writer, on one name. A mutex of the same name excludes others like a writer.
///
/// `read` and `write` return a request ([`Lock`]) with the methods and options of every lock:
/// `rwlock.read().acquire()`, `rwlock.write().try_acquire()`.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let client = leasehold::Client::memory();
/// let prices = client.rwlock("prices");
/// let [one, other] = [prices.read().acquire().await?, prices.read().acquire().await?];
/// assert!(prices.write().try_acquire().await?.is_none(), "it is read");
/// one.release().await?;
/// other.release().await?;
/// prices.write().run(async |guard| change(guard.token()).await).await
/// # }
/// # async fn change(_: leasehold::FencingToken) -> leasehold::Result<()> { Ok(()) }
/// ```
///
/// # Fairness
///
/// Readers and writers queue together. A reader that comes after a waiting writer waits behind it,
/// so writers do not starve; readers that wait next to each other are admitted together.
#[derive(Clone, Debug)]
pub struct RwLock {
    write: Lock,
}

impl RwLock {
    pub(crate) fn new(keeper: Handle, name: Result<LockName, InvalidInput>) -> Self {
        Self { write: Lock::new(keeper, name, Mode::Exclusive) }
    }

    /// A lease shared with other readers.
    pub fn read(&self) -> Lock {
        self.write.with_mode(Mode::Shared)
    }

    /// An exclusive lease.
    pub fn write(&self) -> Lock {
        self.write.clone()
    }
}
