//! The data parts of one store.

use std::sync::Arc;

#[cfg(doc)]
use leasehold::Error;
use leasehold::Result;

use crate::numbers::Numbers;
use crate::part::Part;
use crate::stock::Stock;
use crate::store::{self, DataStore, Memory};

/// Makes the data parts of one store. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Data {
    store: Arc<dyn DataStore>,
}

impl Data {
    /// Opens the store that a URL names, like [`Client::connect`](leasehold::Client::connect).
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the part of the URL that is wrong; [`Error::Store`] says why the
    /// store could not be opened.
    pub async fn connect(url: impl AsRef<str>) -> Result<Self> {
        Ok(Self { store: store::connect(url.as_ref()).await? })
    }

    /// Data in the memory of this process, without a server: for embedding, and for tests.
    pub fn memory() -> Self {
        Self::new(Memory::new())
    }

    /// The data of a store.
    pub fn new(store: impl DataStore) -> Self {
        Self { store: Arc::new(store) }
    }

    /// Numbers that are given out only once, across all machines.
    pub fn numbers(&self, name: impl AsRef<str>) -> Numbers {
        Numbers::new(Part::new(&self.store, "sequence", name.as_ref()))
    }

    /// Pieces of items that orders take. In a Redis Cluster, one stock is in one hash slot.
    pub fn stock(&self, name: impl AsRef<str>) -> Stock {
        Stock::new(Part::new(&self.store, "stock", name.as_ref()))
    }
}
