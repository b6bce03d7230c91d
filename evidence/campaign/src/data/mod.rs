//! The data next to the locks, on the same servers: stock and numbers.

mod numbers;
mod shop;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Error, Result};
use leasehold_data::Data;
use tokio::time::sleep;

pub(crate) use self::numbers::Counters;
pub(crate) use self::shop::Shop;
use crate::plan::Plan;
use crate::promise::Log;

/// How often a request is repeated before its result stays open; the auditing process repeats it
/// more often.
pub(crate) const TRIES: u32 = 4;
const LAST_TRIES: u32 = 200;

/// How many requests run at the same time in an audit.
const AT_ONCE: usize = 32;

/// How long a process pauses after an error.
const REST: Duration = Duration::from_millis(100);

#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) shop: Option<Shop>,
    pub(crate) numbers: Counters,
}

impl Parts {
    /// The parts of the round with this directory.
    pub(crate) fn new(plan: &Plan, data: &Data, directory: &Path, log: &Arc<Log>) -> Self {
        let round = directory.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("campaign-{round}");
        let shop = plan.sells.then(|| Shop::new(data, &name, Arc::clone(log)));
        Self { shop, numbers: Counters::new(plan.numbers, data, &name, log) }
    }

    /// Audits everything at the end, with the records of all processes.
    pub(crate) async fn audit(&self, directory: &Path) {
        if let Some(shop) = &self.shop {
            shop.audit(directory).await;
        }
    }
}

/// Asks until there is an answer. `None` after too many errors: then the request may have been
/// executed or not. An error that must not come fails this check.
pub(crate) async fn ask<T, F>(
    log: &Log,
    check: &str,
    tries: u32,
    question: impl Fn() -> F,
) -> Option<T>
where
    F: Future<Output = Result<T>>,
{
    for _ in 0..tries {
        match question().await {
            Ok(answer) => return Some(answer),
            Err(Error::Store(error)) if may_pass(error.kind()) => {}
            Err(error) => {
                log.violation(&format!("{check} {error:?}"));
                return None;
            }
        }
        log.event("data-error");
        sleep(REST).await;
    }
    None
}

/// Whether it may pass by itself: lost rights come back.
fn may_pass(kind: StoreErrorKind) -> bool {
    kind.is_transient() || kind == StoreErrorKind::Denied
}
