//! Leases that are handed to another client or process.

use std::str::FromStr;

use leasehold::lease::Lease;
use leasehold::{Error, Guard};
use leasehold_testkit::must;

use super::{Adopted, Player};
use crate::promise::Watch;

impl Player {
    /// Turns the lease into a value, and lets another client adopt it, or nobody.
    pub(super) async fn hand_out(&mut self, guard: Guard, mut watch: Watch<'_>) -> Option<Adopted> {
        let (number, lineage) = (watch.guard(), watch.lineage());
        watch.ask(&guard);
        drop(watch);
        let lease = guard.into_lease().ok()?;
        let others = [0, 1].map(|_| self.random.below(self.clients.len()));
        match self.random.below(10) {
            0..5 => {
                let adopted = self.clients[others[0]].adopt(lease).await;
                self.adopted(adopted, number).await.map(|guard| (guard, lineage))
            }
            5 => {
                // A lease that is delivered twice can be adopted only once.
                let [one, two] = others.map(|other| self.clients[other].adopt(lease.clone()));
                let (one, two) = futures_util::future::join(one, two).await;
                let one = self.adopted(one, number).await;
                let two = self.adopted(two, number).await;
                one.xor(two).map(|guard| (guard, lineage))
            }
            6..9 => {
                let text = format!("{number} {lineage} {lease}");
                let path = self.handed_out.join(number.to_string());
                must(std::fs::write(path.with_extension("new"), text));
                must(std::fs::rename(path.with_extension("new"), path.with_extension("lease")));
                None
            }
            _ => None,
        }
    }

    async fn adopted(&self, adopted: Result<Guard, Error>, number: u64) -> Option<Guard> {
        match adopted {
            Ok(guard) => {
                self.log.adopted(number);
                Some(guard)
            }
            Err(error) => {
                self.note(&error).await;
                None
            }
        }
    }

    /// Adopts a lease from a file, of this process or another.
    pub(super) async fn find_lease(&mut self) -> Option<Adopted> {
        let found = must(std::fs::read_dir(&self.handed_out)).find_map(|entry| {
            let path = must(entry).path();
            let is_whole = path.extension().is_some_and(|end| end == "lease");
            // The process that renames the file has the lease.
            let taken = path.with_extension("taken");
            (is_whole && std::fs::rename(path, &taken).is_ok()).then_some(taken)
        })?;
        let text = must(std::fs::read_to_string(&found));
        must(std::fs::remove_file(found));
        let mut words = text.splitn(3, ' ');
        let number = must(words.next()?.parse());
        let lineage = must(words.next()?.parse());
        let lease = must(Lease::from_str(words.next()?));
        self.doing.begin(format!("adopts {}", lease.name));
        let adopted = self.client().adopt(lease).await;
        self.adopted(adopted, number).await.map(|guard| (guard, lineage))
    }
}
