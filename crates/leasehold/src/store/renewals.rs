//! Renewals of many leases that a store makes one by one.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{Answer, Keep, LockName, Reply, StoreError};
use tokio::time::timeout;

use crate::failures::no_answer;

/// Renews each lease by itself, and merges the answers into one. A renewal that fails, or takes
/// longer than `limit`, gets a reply without an outcome, and takes no other along.
///
/// # Errors
///
/// The first refusal, or else the first error, if no renewal was answered.
pub(crate) async fn keep_each<F: Future<Output = Result<Answer, StoreError>>>(
    leases: Vec<(LockName, Keep)>,
    limit: Duration,
    keep: impl Fn(LockName, Keep) -> F,
) -> Result<Answer, StoreError> {
    let keeping = leases.into_iter().map(|(name, lease)| timeout(limit, keep(name, lease)));
    let kept = join_all(keeping).await.into_iter();
    let kept: Vec<_> = kept.map(|kept| kept.unwrap_or_else(|_| Err(no_answer()))).collect();
    let failures = || kept.iter().filter_map(|kept| kept.as_ref().err());
    let refusal = failures().find(|error| !error.kind().is_outage());
    if kept.iter().all(Result::is_err)
        && let Some(error) = refusal.or(failures().next())
    {
        return Err(error.clone().maybe_executed());
    }
    let now = kept.iter().flatten().find_map(|answer| answer.now);
    let replies = kept.into_iter().flat_map(|kept| match kept.map(|answer| answer.reply) {
        Ok(Reply::Many(replies)) => replies,
        Ok(reply) => vec![reply],
        Err(_) => vec![Reply::Busy { retry_after: Duration::ZERO }],
    });
    let mut all = Answer::untimed(Reply::Many(replies.collect()));
    all.now = now;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::Arc;

    use futures_util::future::Either;
    use leasehold_core::{ClientId, HolderId, HolderInfo, Mode, Request, StoreErrorKind};

    use super::*;

    /// Keeps leases that have these outcomes; the node of one without an outcome is silent.
    async fn keep(outcomes: &[Option<Result<Reply, StoreError>>]) -> Result<Reply, StoreError> {
        let lease = |attempt: usize| {
            let id = HolderId { client: ClientId(1), attempt: attempt as u64 };
            let request = Request::new(id, Mode::Exclusive, Arc::new(HolderInfo::default()));
            (LockName::new("a").unwrap(), Keep::new(request, Duration::from_secs(1)))
        };
        let leases = (0..outcomes.len()).map(lease).collect();
        let answered = keep_each(leases, Duration::from_secs(1), |_, lease| {
            match &outcomes[lease.request.id.attempt as usize] {
                Some(outcome) => Either::Left(ready(outcome.clone().map(Answer::untimed))),
                None => Either::Right(pending()),
            }
        });
        answered.await.map(|answer| answer.reply)
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_fails_or_is_not_answered_costs_the_others_no_reply() {
        let none = Reply::Busy { retry_after: Duration::ZERO };
        let many = Some(Ok(Reply::Many(vec![Reply::Revoked])));
        let gone = Some(Err(StoreError::new(StoreErrorKind::Unreachable, "a")));
        let kept = [None, many, gone, Some(Ok(Reply::NotHeld))];
        let replies = vec![none.clone(), Reply::Revoked, none, Reply::NotHeld];
        assert_eq!(keep(&kept).await.unwrap(), Reply::Many(replies));
        assert_eq!(keep(&[]).await.unwrap(), Reply::Many(Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn if_all_renewals_fail_there_is_an_error_and_a_refusal_says_more_than_an_outage() {
        let gone = |why| Some(Err(StoreError::new(StoreErrorKind::Unreachable, why)));
        let denied = Some(Err(StoreError::new(StoreErrorKind::Denied, "b")));
        let error = keep(&[gone("a"), denied, None]).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied);
        let error = keep(&[gone("a"), gone("b")]).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), error.may_have_executed()), ("a", true));
        let silent = keep(&[None]).await.unwrap_err();
        assert!(silent.kind().is_outage() && silent.may_have_executed(), "{silent}");
    }
}
