//! The same names without async: for programs that have no runtime.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! let client = leasehold::blocking::Client::memory();
//! let guard = client.mutex("migrate").acquire()?;
//! guard.release()?;
//! # client.close()
//! # }
//! ```
//!
//! A call from inside an async runtime is refused with
//! [`Error::Invalid`](crate::Error::Invalid), because it would block that runtime: use
//! [`crate::Client`] there.

mod cancel;
mod client;
mod driver;
mod election;
mod guard;
mod lock;
mod once;

pub use self::cancel::Cancel;
pub use self::client::{Admin, Client};
pub use self::election::{Election, Leadership, Observation};
pub use self::guard::Guard;
pub use self::lock::{Lock, RwLock, Semaphore};
pub use self::once::Once;

pub use self::driver::Driver;
