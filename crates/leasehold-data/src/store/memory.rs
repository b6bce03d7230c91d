//! The model behind a mutex: the data of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use leasehold::error::StoreError;
use leasehold::time::{Clock, SystemClock};

use super::data_store::DataStore;
use crate::model::cell::{self, Cell};
use crate::model::numbers::{self, Sequence};
use crate::model::queue::{self, Queue};
use crate::model::stock::{self, Stock};
use crate::model::{Action, Answer, Id, Reply, Request};

/// The data of one process, for embedding and for tests with a fake clock.
///
/// Clones share their records.
#[derive(Clone, Debug)]
pub struct Memory {
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<Records>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty store on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }

    /// An empty store on the given clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { clock: Arc::new(clock), records: Arc::default() }
    }
}

/// All records, by part and name.
#[derive(Debug, Default)]
struct Records {
    cells: HashMap<Id, Cell>,
    queues: HashMap<Id, Queue>,
    sequences: HashMap<Id, Option<Sequence>>,
    stocks: HashMap<Id, Stock>,
}

impl Records {
    fn step(&mut self, now_us: u64, request: Request) -> Reply {
        let Request { name, fence, action } = request;
        let fence = fence.as_ref();
        match action {
            Action::Cell(action) => cell::step(self.cells.entry(name).or_default(), fence, &action)
                .map_or_else(Reply::Fenced, Reply::Cell),
            Action::Numbers(action) => {
                let sequence = self.sequences.entry(name).or_default();
                Reply::Numbers(numbers::step(sequence, now_us, &action))
            }
            Action::Queue(action) => {
                queue::step(self.queues.entry(name).or_default(), now_us, fence, &action)
                    .map_or_else(Reply::Fenced, Reply::Queue)
            }
            Action::Stock(action) => {
                stock::step(self.stocks.entry(name).or_default(), now_us, fence, &action)
                    .map_or_else(Reply::Fenced, Reply::Stock)
            }
        }
    }
}

impl DataStore for Memory {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let now_us = self.clock.wall_us();
            let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Answer { now_us, reply: records.step(now_us, request) })
        })
    }
}
