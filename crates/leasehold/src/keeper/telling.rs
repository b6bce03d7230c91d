//! A store knows the first holder of a lease that is passed on inside this process. It is told of
//! one who keeps it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Action, BoxFuture, StoreError};

use super::jobs::Done;
use super::lease::LeaseState;
use super::life::Keeper;
use crate::store::clocked::TimedAnswer;

/// When a store is told again that has not answered.
const TELL_AGAIN: Duration = Duration::from_secs(1);

impl Keeper {
    /// Tells the store who has a lease.
    pub(super) fn tell(self: &Arc<Self>, state: Arc<LeaseState>) -> BoxFuture<'static, Done> {
        let keeper = Arc::clone(self);
        Box::pin(async move {
            let action = Action::Describe { id: state.id, info: keeper.info_of(&state) };
            let result = keeper.store.apply(&state.name, action).await;
            Done::Told { state, result }
        })
    }

    /// What came of it. That the store does not know the lease (any more), its renewal finds out.
    pub(super) fn told(&self, state: &LeaseState, result: Result<TimedAnswer, StoreError>) {
        if result.is_err_and(|error| error.kind().is_transient()) {
            let mut table = self.table();
            if let Some(due) = table.leases.tell_at(state, self.store.now() + TELL_AGAIN) {
                self.wake_by(&mut table, due);
            }
        }
    }
}
