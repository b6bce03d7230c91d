//! One guarded value.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold::Result;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::fence::Fence;

use crate::model::cell::{CellAction, CellReply, MAX_VALUE_BYTES};
use crate::model::{Action, Reply};
use crate::part::{Part, check_size, unexpected};

/// One value of up to 64 KiB. It is replaced by the newest holder of a lock ([`open`](Cell::open)),
/// or by a caller that knows its version ([`replace`](Cell::replace)).
///
/// # Cost
///
/// Each call is one round trip.
///
/// # Cancel safety
///
/// If the future of a write is dropped, the value may or may not have been written.
///
/// # Examples
///
/// ```
/// # use leasehold::{Client, Error};
/// # use leasehold_data::Data;
/// # #[tokio::main]
/// # async fn main() -> leasehold::Result<()> {
/// # let (client, data) = (Client::memory(), Data::memory());
/// let guard = client.mutex("balance/42").acquire().await?;
/// let balance = data.cell("balance/42").open(&guard).await?; // token first, then the value
/// let before: i64 = String::from_utf8_lossy(balance.value()).parse().unwrap_or(0);
/// balance.write((before + 100).to_string()).await?; // Err(Fenced) if we were overtaken
/// # guard.release().await
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a `Cell` does nothing until a verb is called"]
pub struct Cell {
    part: Part,
}

/// A value and its version: 0 if it was never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned {
    /// Grows by one with every write.
    pub version: u64,
    /// The value that was written last.
    pub value: Vec<u8>,
}

impl Cell {
    pub(crate) fn new(part: Part) -> Self {
        Self { part }
    }

    /// Installs the token of a lease, so that older holders are refused from now on, and only then
    /// reads the value. Write with [`Opened::write`]: no older holder can change the value after it
    /// was read here.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`](leasehold::Error::Fenced) if this lease was overtaken already.
    pub async fn open(&self, fence: impl Into<Fence>) -> Result<Opened> {
        let cell = Self { part: self.part.clone().guarded(fence) };
        let found = cell.read().await?;
        let newest = Arc::new(AtomicU64::new(found.version));
        Ok(Opened { cell, found, newest })
    }

    /// Reads the value. It may be outdated by the time the caller looks at it.
    ///
    /// # Errors
    ///
    /// [`Error::Store`](leasehold::Error::Store).
    pub async fn read(&self) -> Result<Versioned> {
        match self.step(CellAction::Read).await? {
            CellReply::Found { version, value } => Ok(Versioned { version, value }),
            other => Err(unexpected(&Reply::Cell(other))),
        }
    }

    /// Replaces the value if it still has this version, and returns the new version. `None` if
    /// somebody else was faster: read and decide anew.
    ///
    /// If an error leaves it open whether the value was written, read the cell: only its version
    /// answers that.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`](leasehold::Error::Invalid) for a value above 64 KiB, else
    /// [`Error::Store`](leasehold::Error::Store).
    pub async fn replace(&self, version: u64, value: impl Into<Vec<u8>>) -> Result<Option<u64>> {
        Ok(self.write_if(Some(version), value.into()).await?.ok())
    }

    /// Replaces the value, whatever its version. A program that reads, computes and writes this way
    /// overwrites changes made in between. Use this for a value that depends on nothing that was
    /// read.
    ///
    /// If an error leaves it open whether the value was written, the write may still take effect
    /// later. It then replaces a value that was written in the meantime.
    /// [`replace`](Cell::replace) and [`Opened::write`] exclude that.
    ///
    /// # Errors
    ///
    /// The same as [`replace`](Cell::replace).
    pub async fn write(&self, value: impl Into<Vec<u8>>) -> Result<u64> {
        let written = self.write_if(None, value.into()).await?;
        written.map_err(|_| {
            StoreError::new(StoreErrorKind::Corrupt, "an unconditional write found a condition")
                .maybe_executed()
                .into()
        })
    }

    /// The new version, or the other version that was found.
    async fn write_if(
        &self,
        version: Option<u64>,
        value: Vec<u8>,
    ) -> Result<std::result::Result<u64, u64>> {
        check_size("value", value.len(), MAX_VALUE_BYTES)?;
        match self.step(CellAction::Write { version, value }).await? {
            CellReply::Changed { version } => Ok(Err(version)),
            CellReply::Written { version } => Ok(Ok(version)),
            other => Err(unexpected(&Reply::Cell(other))),
        }
    }

    async fn step(&self, action: CellAction) -> Result<CellReply> {
        match self.part.apply(Action::Cell(action)).await?.reply {
            Reply::Cell(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }
}

/// A cell that a holder has opened: the cell has seen the holder's token.
#[derive(Clone, Debug)]
pub struct Opened {
    cell: Cell,
    found: Versioned,
    /// The newest version that this holder knows.
    newest: Arc<AtomicU64>,
}

impl Opened {
    /// The value at the moment when the token was installed.
    pub fn value(&self) -> &[u8] {
        &self.found.value
    }

    /// The version of that value: 0 if it was never written.
    pub fn version(&self) -> u64 {
        self.found.version
    }

    /// Replaces the value, unless a newer holder has opened the cell. May be called repeatedly. A
    /// write whose reply was lost changes nothing after a later write has succeeded.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`](leasehold::Error::Fenced): a newer holder has taken over, so the caller
    /// must stop. Otherwise the same as [`Cell::replace`].
    ///
    /// # Cost
    ///
    /// One round trip, and another one for each write in between that is not from this `Opened` or
    /// whose reply was lost.
    pub async fn write(&self, value: impl Into<Vec<u8>>) -> Result<u64> {
        let value = value.into();
        loop {
            // The condition is for late copies of this write: they find a newer version.
            let version = self.newest.load(Ordering::Relaxed);
            let written = self.cell.write_if(Some(version), value.clone()).await?;
            let (Ok(newest) | Err(newest)) = written;
            self.newest.store(newest, Ordering::Relaxed);
            if written.is_ok() {
                return Ok(newest);
            }
        }
    }
}
