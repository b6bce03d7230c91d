//! The data next to the locks, on the same servers: stock, a queue, cells and numbers.

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

/// How often a request is repeated before its result stays open; the auditing process repeats it
/// more often.
pub(crate) const TRIES: u32 = 4;
const LAST_TRIES: u32 = 200;

/// How many requests run at the same time in an audit.
const AT_ONCE: usize = 32;

/// How long a process pauses after an error.
const REST: Duration = Duration::from_millis(100);

/// The data parts of a place in one round.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) shop: Option<Shop>,
    pub(crate) entries: Option<Entries>,
    pub(crate) cells: Vec<Cell>,
    pub(crate) numbers: Counters,
}

impl Parts {
    /// The parts of the round with this directory.
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

    /// Audits everything at the end, with the records of all processes.
    pub(crate) async fn audit(&self, client: &Client, directory: &Path) {
        if let Some(shop) = &self.shop {
            shop.audit(directory).await;
        }
        if let Some(entries) = &self.entries {
            entries.audit(client, directory).await;
        }
    }
}

/// The result of a few requests.
pub(crate) enum Asked<T> {
    Answered(T),
    /// The token was too low, and nothing was done.
    Refused,
    /// The request may have been executed or not.
    Open,
}

/// Asks until there is an answer, or too often. An error that must not come fails this check.
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

/// Whether it may pass by itself: lost rights come back.
fn may_pass(kind: StoreErrorKind) -> bool {
    kind.is_transient() || kind == StoreErrorKind::Denied
}
