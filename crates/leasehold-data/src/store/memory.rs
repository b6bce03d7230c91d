//! The model behind a mutex: the data of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use leasehold::error::StoreError;
use leasehold::time::{Clock, SystemClock};

use super::data_store::DataStore;
use crate::model::numbers::{self, Sequence};
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
    sequences: HashMap<Id, Option<Sequence>>,
    stocks: HashMap<Id, Stock>,
}

impl Records {
    fn step(&mut self, now_us: u64, request: Request) -> Reply {
        let Request { name, fence, action } = request;
        let fence = fence.as_ref();
        match action {
            Action::Numbers { count, plan } => {
                let sequence = self.sequences.entry(name).or_default();
                Reply::Numbers(numbers::step(sequence, now_us, count, plan))
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
            let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
            // A time from before the lock could be earlier than that of the step before.
            let now_us = self.clock.wall_us();
            Ok(Answer { now_us, reply: records.step(now_us, request) })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use leasehold::time::{FakeClock, Instant};

    use super::*;
    use crate::model::stock::StockAction;

    /// A clock that notes whether the records were locked when it was read.
    #[derive(Clone, Debug, Default)]
    struct Noting {
        clock: FakeClock,
        records: Arc<OnceLock<Arc<Mutex<Records>>>>,
        was_locked: Arc<OnceLock<bool>>,
    }

    impl Clock for Noting {
        fn now(&self) -> Instant {
            self.clock.now()
        }

        fn wall_us(&self) -> u64 {
            let is_locked = self.records.get().is_some_and(|records| records.try_lock().is_err());
            self.was_locked.set(is_locked).unwrap();
            self.clock.wall_us()
        }

        fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
            self.clock.sleep_until(at)
        }
    }

    #[tokio::test]
    async fn the_clock_is_read_only_once_the_data_is_locked() {
        let clock = Noting::default();
        let memory = Memory::with_clock(clock.clone());
        clock.records.set(Arc::clone(&memory.records)).unwrap();
        let action = Action::Stock(StockAction::Read { items: Vec::new() });
        let name = Id::new("stock", "a").unwrap();
        memory.apply(Request { name, fence: None, action }).await.unwrap();
        assert_eq!(clock.was_locked.get(), Some(&true));
    }
}
