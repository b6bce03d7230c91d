//! The data parts of the memory store: their steps behind a mutex.

use std::collections::HashMap;
use std::sync::PoisonError;

use leasehold_core::data::cell::{self, Cell};
use leasehold_core::data::numbers::{self, Sequence};
use leasehold_core::data::queue::{self, Queue};
use leasehold_core::data::stock::{self, Stock};
use leasehold_core::data::{Action, Answer, Id, Reply, Request};
use leasehold_core::{BoxFuture, Clock, StoreError};

use super::Memory;
use crate::store::DataStore;

/// All records, by part and name.
#[derive(Debug, Default)]
pub(super) struct Records {
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
            Action::Cell(action) => cell::step(self.cells.entry(name).or_default(), fence, &action),
            Action::Numbers(action) => {
                let sequence = self.sequences.entry(name).or_default();
                Reply::Numbers(numbers::step(sequence, now_us, &action))
            }
            Action::Queue(action) => {
                queue::step(self.queues.entry(name).or_default(), now_us, fence, &action)
            }
            Action::Stock(action) => {
                stock::step(self.stocks.entry(name).or_default(), now_us, fence, &action)
            }
        }
    }
}

impl DataStore for Memory {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let now_us = self.clock.wall_us();
            let mut records = self.data.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(Answer { now_us, reply: records.step(now_us, request) })
        })
    }
}
