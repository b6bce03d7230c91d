//! The types of this crate without async, for programs that have no runtime.
//!
//! ```
//! # fn main() -> leasehold::Result<()> {
//! use std::time::Duration;
//!
//! use leasehold::blocking::Client;
//!
//! let client = Client::memory(); // or Client::connect("redis://10.0.0.5/")?
//! let guard = client.mutex("migrate").acquire_within(Duration::from_secs(30))?;
//! guard.on_lost(|reason| eprintln!("stop: {reason}"));
//! guard.release()?;
//! client.mutex("migrate").run(|guard| Ok::<_, leasehold::Error>(guard.token()))?;
//! client.close()
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
mod forward;
mod guard;
mod lock;

pub use self::cancel::Cancel;
pub use self::client::{Admin, Client, ClientBuilder};
pub use self::election::{Election, Leadership, Observation};
pub use self::guard::Guard;
pub use self::lock::{Lock, RwLock, Semaphore};

#[doc(hidden)]
pub use self::driver::Driver;
