//! Tidying: what dead processes have left behind is removed, by the process that comes first.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use leasehold_core::{Addressed, ClientId, StoreError};

use super::database::Database;
use super::disk_space::Reserve;
use super::thread::Job;
use super::transaction::FileTransaction;
use super::{reap, subscription};

/// The interval at which the processes of a store tidy: 2 min.
pub(crate) const INTERVAL_US: u64 = 120_000_000;

/// The number of rows that one transaction reads: 256, so that tidying keeps others waiting hardly
/// longer than an ordinary request does.
const ROWS: usize = 256;

impl Database {
    /// Tidies if that is due. Does the jobs that come meanwhile.
    pub(super) fn tidy_if_due(&mut self, jobs: &Receiver<Job>) -> Result<(), StoreError> {
        let site = Arc::clone(&self.site);
        let (location, liveness) = (&site.location, &site.liveness);
        let now_us = site.now().lease_us;
        if self.tidy_at_us > now_us {
            return Ok(());
        }
        self.tidy_at_us = now_us + INTERVAL_US;
        let claim = |transaction: &FileTransaction<'_>| transaction.claim_tidying();
        if !self.write(Reserve::Use, claim)? {
            return Ok(());
        }
        // A listener's pipe needs no lock: it gets its name once it is open.
        location.beside(subscription::remove_unread(liveness))?;
        // A client's pipe is made and opened under the write lock. A client whose pipe is made but
        // not yet open looks dead: without the lock, it would be reaped with the lease that it
        // acquires a moment later.
        let turn = self.turn()?;
        let dead = location.beside(liveness.dead())?;
        drop(turn);
        let mut next = Some(String::new());
        while let Some(from) = next {
            let part = self.write(Reserve::Use, |transaction| transaction.tidy(&from, &dead))?;
            next = site.deliver(part);
            jobs.try_iter().for_each(|job| job(self));
        }
        let _turn = self.turn()?;
        dead.iter().for_each(|client| liveness.remove(&client.to_string()));
        Ok(())
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
        from: &str,
        dead: &[ClientId],
    ) -> Result<(Option<String>, Vec<Addressed>), StoreError> {
        let (mut names, mut scanned) = (Vec::new(), 0);
        let mut next = None;
        self.each_row(from, |name, record| {
            // A damaged record is left as it is: a caller that asks for it gets the error.
            names.extend(record.map(|_| name.clone()));
            scanned += 1;
            next = (scanned == ROWS).then(|| name.to_string());
            next.is_none()
        })?;
        let mut messages = Vec::new();
        for name in names {
            messages.extend(self.edit(&name, |record, counter| {
                record.expire(self.now);
                Ok(reap::end_dead(record, counter, self.now, dead))
            })?);
        }
        Ok((next, messages))
    }
}
