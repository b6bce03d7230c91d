//! Tidying: what dead processes have left behind is removed, by the process that comes first.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use leasehold_core::{Addressed, ClientId, LockName, StoreError};

use super::database::Database;
use super::disk_space::Reserve;
use super::reap;
use super::thread::Job;
use super::transaction::FileTransaction;
use crate::store::unreadable;

/// The interval at which the processes of a store tidy: 2 min.
pub(crate) const INTERVAL_US: u64 = 120_000_000;

/// The number of rows that one transaction reads: 256, so that tidying keeps others waiting hardly
/// longer than an ordinary request does.
const ROWS: u32 = 256;

const NAMES: &str = "SELECT name FROM lock WHERE name > ?1 ORDER BY name LIMIT ?2";

impl Database {
    /// Tidies if that is due. Does the jobs that come meanwhile.
    pub(super) fn tidy_if_due(&mut self, jobs: &Receiver<Job>) -> Result<(), StoreError> {
        let site = Arc::clone(&self.site);
        let now_us = site.now().lease_us;
        if self.tidy_at_us > now_us {
            return Ok(());
        }
        self.tidy_at_us = now_us + INTERVAL_US;
        let claim = |transaction: &FileTransaction<'_>| transaction.claim_tidying();
        if !self.write(Reserve::Use, claim)? {
            return Ok(());
        }
        let pipes = self.in_turn(|liveness| liveness.side.unread())?;
        let dead: Vec<ClientId> = pipes.iter().filter_map(|pipe| pipe.parse().ok()).collect();
        let mut next = Some(String::new());
        while let Some(after) = next {
            let part = self.write(Reserve::Use, |transaction| transaction.tidy(&after, &dead))?;
            next = site.deliver(part);
            jobs.try_iter().for_each(|job| job(self));
        }
        self.in_turn(|liveness| {
            pipes.iter().for_each(|pipe| liveness.side.remove(pipe));
            Ok(())
        })
    }
}

impl FileTransaction<'_> {
    /// Whether tidying is due. If it is, this process has to do it, because the next time is set.
    fn claim_tidying(&self) -> Result<bool, StoreError> {
        let (now_us, at_us) = (self.now.lease_us, self.number("tidy_at_us")?);
        // A time that is too far away was set before the last start of the machine, which has reset
        // the clock.
        let is_later = (now_us + 1..=now_us + INTERVAL_US).contains(&at_us);
        if !is_later {
            self.set_number("tidy_at_us", now_us + INTERVAL_US)?;
        }
        Ok(!is_later)
    }

    /// Ends the leases and the places of dead clients, and drops what has ended. Returns the name
    /// after which to continue, and the messages to send.
    fn tidy(
        &self,
        after: &str,
        dead: &[ClientId],
    ) -> Result<(Option<String>, Vec<Addressed>), StoreError> {
        let mut names: Vec<String> = self.sql(|transaction| {
            transaction.prepare_cached(NAMES)?.query_map((after, ROWS), |row| row.get(0))?.collect()
        })?;
        let mut messages = Vec::new();
        for name in names.iter().filter_map(|name| LockName::new(name.as_str()).ok()) {
            let tidied = self.edit(&name, |record, counter| {
                record.expire(self.now);
                reap::end_dead(record, counter, self.now, dead)
            });
            match tidied {
                // A damaged record is left as it is: a caller that asks for it gets the error.
                Err(error) if unreadable::refusal(&error).is_some() => {}
                tidied => messages.extend(tidied?),
            }
        }
        let is_last = names.len() < ROWS as usize;
        Ok((names.pop().filter(|_| !is_last), messages))
    }
}
