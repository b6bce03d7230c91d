//! Elections, and the waiters of a queue.

use std::sync::Arc;
use std::time::Duration;

use leasehold::LeaseOptions;
use tokio::time::timeout;

use super::Player;
use crate::plan::Plan;
use crate::promise::{Watch, now_ns};

impl Player {
    /// Leads for a while, or asks for the leader.
    pub(super) async fn elect(&mut self) {
        let name = Plan::election(self.random.below(self.plan.elections));
        let ttl = self.random.one_of(&self.plan.ttls);
        let options = LeaseOptions { ttl, ..LeaseOptions::default() };
        let election = self.client().election(&name).options(options);
        let asked = now_ns();
        if self.plan.keeps && self.random.chance(40) {
            self.doing.begin(format!("asks who leads {name}"));
            return match election.leader().await {
                Ok(Some(leader)) => self.log.leads(&name, leader.token.get(), asked),
                Ok(None) => self.log.event("nobody-leads"),
                Err(error) => self.note(&error).await,
            };
        }
        self.doing.begin(format!("campaigns for {name}"));
        let patience = self.random.up_to(self.plan.longest_ttl() * 2);
        let leadership = match timeout(patience, election.campaign("one of many")).await {
            Err(_) => return self.log.event("dropped"),
            Ok(Err(error)) => return self.note(&error).await,
            Ok(Ok(leadership)) => leadership,
        };
        let log = Arc::clone(&self.log);
        let mut watch = Watch::granted(&log, self.own, asked, leadership.guard());
        self.doing.begin(format!("leads {name}"));
        let span = self.random.up_to(Duration::from_millis(30));
        self.linger(leadership.guard(), &mut watch, span).await;
        if self.random.chance(30)
            && let Err(error) = leadership.proclaim("more to say").await
        {
            self.note(&error).await;
        }
        watch.ask(leadership.guard());
        if self.random.chance(30) { drop(leadership) } else { drop(leadership.resign().await) }
    }

    pub(super) async fn watch_queue(&mut self) {
        let name = match self.random.chance(50) {
            true => Plan::name(self.random.below(self.plan.names / 4)),
            false => Plan::election(self.random.below(self.plan.elections)),
        };
        self.doing.begin(format!("inspects {name}"));
        let asked = now_ns();
        match self.client().admin().inspect(&name).await {
            Ok(status) if status.waiters.len() > 1 => {
                let since = |waited: Duration| {
                    asked.saturating_sub(u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX))
                };
                let waiters = status.waiters.iter();
                let waiting: Vec<_> =
                    waiters.map(|waiter| (waiter.id, since(waiter.waited))).collect();
                self.log.queue(&name, &waiting);
            }
            Ok(_) => {}
            Err(error) => self.note(&error).await,
        }
    }
}
