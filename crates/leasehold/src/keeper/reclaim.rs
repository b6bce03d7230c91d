//! What a store has forgotten, its holder takes back before it counts as lost.

use std::sync::Arc;

use leasehold_core::{
    Acquire, Action, LossReason, Operation, Reclaim, Reply, StoreError, StoreErrorKind,
};

use super::answers::renewal_outcome;
use super::lease::LeaseState;
use super::life::Keeper;
use crate::store::clocked::TimedAnswer;

impl Keeper {
    /// Whether a lease that the store does not know (any more) may be taken back: while its holder
    /// still relies on it, and nobody is known to have come after. Later the store may grant it
    /// anew, and forget that too.
    pub(super) fn may_reclaim(&self, state: &LeaseState, reason: LossReason) -> bool {
        self.store.inner.capabilities().reclaims
            && matches!(reason, LossReason::Expired | LossReason::Vanished)
            && state.signal.check().is_none()
    }

    /// Asks for a lease by its token.
    pub(super) async fn reclaim(&self, state: &LeaseState) -> Result<TimedAnswer, StoreError> {
        // If the guard is dropped meanwhile, its release must win also where it comes first.
        state.expect_late_copies();
        let ttl = state.ttl();
        let now = self.store.now();
        let deadline = (now + ttl / 6).min(state.signal.valid_until());
        let nonce = self.table().seed();
        let (mode, change) = state.mode_and_change();
        let request = Acquire::new(state.id, mode, ttl)
            .with_nonce(nonce)
            .with_not_after(self.store.not_after_us(&state.name, now))
            .with_info(self.info_of(state));
        let action = Action::Reclaim(Reclaim::new(state.grant_token(), change, request));
        let operation = Operation::On { name: state.name.clone(), action };
        self.store.execute_at(operation, now, Some(deadline)).await
    }

    /// What came of it. Without an answer the next renewal finds out.
    pub(super) fn reclaimed(
        &self,
        state: &Arc<LeaseState>,
        reason: LossReason,
        result: Result<TimedAnswer, StoreError>,
    ) {
        let timed = match result {
            Ok(timed) if timed.answer.reply != Reply::Late => timed,
            Err(error) if !error.kind().is_transient() => return self.lose(state, reason),
            Ok(_) => {
                let why = "the holder came too late to take back what the store has forgotten";
                let cause = StoreError::new(StoreErrorKind::Timeout, why);
                return self.renewals_failed([state], &cause);
            }
            Err(cause) => return self.renewals_failed([state], &cause),
        };
        match renewal_outcome(&timed.answer.reply, state.grant_token()) {
            Some(Ok(grant)) => self.extend([(&**state, grant)], &timed),
            Some(Err(found)) => self.lose(state, found),
            None => self.lose(state, reason),
        }
    }
}
