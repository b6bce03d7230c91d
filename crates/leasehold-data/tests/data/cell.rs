//! A write to a cell that stays under way for long.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use leasehold::error::{StoreError, StoreErrorKind};
use leasehold::fence::Fence;
use leasehold::{Error, FencingToken, LockName};
use leasehold_data::Data;
use leasehold_data::model::cell::CellAction;
use leasehold_data::model::{Action, Answer, Request};
use leasehold_data::store::{DataStore, Memory};

/// A store that does not answer the first write. A copy of the write is under way until the test
/// delivers it.
#[derive(Clone, Debug, Default)]
struct Unanswered {
    memory: Memory,
    /// Whether the write is also done at once.
    is_done: bool,
    late: Arc<OnceLock<Request>>,
}

impl DataStore for Unanswered {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            let is_write = matches!(request.action, Action::Cell(CellAction::Write { .. }));
            if !is_write || self.late.set(request.clone()).is_err() {
                return self.memory.apply(request).await;
            }
            if self.is_done {
                self.memory.apply(request).await?;
            }
            Err(StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed())
        })
    }
}

#[tokio::test]
async fn a_late_copy_of_a_holders_write_does_not_undo_its_later_writes() {
    for is_done in [false, true] {
        let store = Unanswered { is_done, ..Unanswered::default() };
        let cell = Data::new(store.clone()).cell("balance");
        let token = FencingToken::from_number(5).unwrap();
        let fence = Fence { lock: LockName::new("lock").unwrap(), token };
        let opened = cell.open(fence).await.unwrap();
        assert!(matches!(opened.write("100").await, Err(Error::Store(_))));
        opened.write("100").await.unwrap();
        opened.clone().write("200").await.unwrap();
        let late = store.late.get().unwrap().clone();
        store.memory.apply(late).await.unwrap();
        assert_eq!(cell.read().await.unwrap().value, b"200", "{is_done}");
    }
}
