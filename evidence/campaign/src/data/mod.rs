//! What is kept beside the locks, on the same servers: stock, a queue, cells and numbers.

mod entries;
mod numbers;
mod shop;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, Result};
use leasehold_data::{Cell, Data};
use tokio::time::sleep;

pub(crate) use self::entries::Entries;
pub(crate) use self::numbers::Counters;
pub(crate) use self::shop::Shop;
use crate::plan::{CELLS, Plan};
use crate::promise::Log;

/// How often something is asked before it is left open; the process that takes stock asks more
/// often.
pub(crate) const TRIES: u32 = 4;
const LAST_TRIES: u32 = 200;

/// How many are asked at the same time when stock is taken.
const AT_ONCE: usize = 32;

/// For how long the store is left alone after an error.
const REST: Duration = Duration::from_millis(100);

/// The parts of one round that a place has.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) shop: Option<Shop>,
    pub(crate) entries: Option<Entries>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) numbers: Counters,
}

impl Parts {
    /// Those of the round whose directory this is.
    pub(crate) fn new(plan: &Plan, data: &Data, directory: &Path, log: &Arc<Log>) -> Self {
        let round = directory.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("campaign-{round}");
        let numbers = Counters::new(plan.numbers, data, &name, log);
        if !plan.sells {
            return Self { numbers, ..Self::default() };
        }
        Self {
            shop: Some(Shop::new(data, &name, Arc::clone(log))),
            entries: Some(Entries::new(data, &name, Arc::clone(log))),
            cells: (0..CELLS).map(|number| data.cell(format!("{name}-{number}"))).collect(),
            numbers,
        }
    }

    /// Takes stock when all else is over, from what all have written.
    pub(crate) async fn audit(&self, client: &Client, directory: &Path) {
        if let Some(shop) = &self.shop {
            shop.audit(directory).await;
        }
        if let Some(entries) = &self.entries {
            entries.audit(client, directory).await;
        }
    }
}

/// What came of asking a few times.
pub(crate) enum Asked<T> {
    Answered(T),
    /// The token was too low, and nothing was done.
    Refused,
    /// It was done or it was not.
    Open,
}

/// Asks until there is an answer, or too often. An error that must not be fails this check.
pub(crate) async fn ask<T, F>(
    log: &Log,
    check: &str,
    tries: u32,
    question: impl Fn() -> F,
) -> Asked<T>
where
    F: Future<Output = Result<T>>,
{
    let mut may_be_done = false;
    for _ in 0..tries {
        match question().await {
            Ok(answer) => return Asked::Answered(answer),
            Err(Error::Fenced { .. }) if may_be_done => return Asked::Open,
            Err(Error::Fenced { .. }) => return Asked::Refused,
            Err(Error::Store(error)) if may_pass(error.kind()) => {
                may_be_done |= error.may_have_executed();
            }
            Err(error) => {
                log.violation(&format!("{check} {error:?}"));
                return Asked::Open;
            }
        }
        log.event("data-error");
        sleep(REST).await;
    }
    Asked::Open
}

/// Whether it may pass by itself: rights that are taken away come back.
fn may_pass(kind: StoreErrorKind) -> bool {
    kind.is_transient() || kind == StoreErrorKind::Denied
}
