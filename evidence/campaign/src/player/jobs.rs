//! Jobs that all processes start and one runs, once in a period.

use std::sync::Arc;
use std::time::Duration;

use leasehold::admin::HoldState;

use super::Player;
use crate::plan::Plan;
use crate::promise::{Watch, now_ns};

/// The periods: shorter and longer than leases.
const PERIODS: [Duration; 3] =
    [Duration::from_millis(150), Duration::from_millis(600), Duration::from_secs(4)];

/// How long a job takes: less than any period.
const WORK: Duration = Duration::from_millis(30);

impl Player {
    /// Runs a job, unless another process runs it, or has run it in this period.
    pub(super) async fn run_job(&mut self) {
        let (name, period) =
            (Plan::job(self.random.below(self.plan.jobs)), self.random.one_of(&PERIODS));
        let ttl = self.random.one_of(&self.plan.ttls);
        let lock = self.client().mutex(&name).ttl(ttl).min_hold(period);
        self.doing.begin(format!("starts {name}"));
        let asked = now_ns();
        let guard = match lock.try_acquire().await {
            Ok(Some(guard)) => guard,
            Ok(None) => return self.log.event("job-skipped"),
            Err(error) => return self.note(&error).await,
        };
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, &guard);
        let span = self.random.up_to(WORK);
        self.linger(&guard, &mut watch, span).await;
        let (run, holder) = (watch.guard(), guard.holder());
        drop(watch);
        // A release without an answer is `Ok`, too. Only what the store shows has reached it.
        if guard.release().await.is_ok()
            && let Ok(status) = lock.status().await
            && status.holders.iter().any(|it| it.id == holder && it.state == HoldState::Cooldown)
        {
            log.event("job");
            log.ran(&name, run, period);
        }
    }
}
