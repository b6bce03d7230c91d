//! A store of locks that does not come with leasehold: records in a map, behind one mutex.
//!
//! This is all there is to a store: [`OwnStore::execute`] applies the model to the record of a
//! name, in one step that nothing else comes between, and posts the messages of that step. A store
//! that keeps its records elsewhere does the same inside a transaction.
#![forbid(unsafe_code)]

mod mailbox;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::LockName;
use leasehold::admin::ClientId;
use leasehold::error::StoreError;
use leasehold::store::protocol::{Action, Answer, BoxFuture, Now, Operation, Page, Reply};
use leasehold::store::protocol::{DEFAULT_RETENTION, Outcome, Record, Rules, step};
use leasehold::store::{Capabilities, Inbox, Store};
use leasehold::time::{Clock, SystemClock};

use crate::mailbox::{Mailbox, Recipient};

/// Locks in the memory of one process.
#[derive(Debug)]
pub struct OwnStore {
    clock: Arc<dyn Clock>,
    shared: Mutex<Shared>,
}

struct Shared {
    records: BTreeMap<LockName, Record>,
    mailboxes: HashMap<ClientId, Mailbox>,
    /// How long it keeps the record of a name.
    rules: Rules,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

impl Default for OwnStore {
    fn default() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl OwnStore {
    /// An empty store whose leases end by this clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::with_rules(clock, Rules::new(DEFAULT_RETENTION))
    }

    /// The same, which remembers names for longer.
    pub fn with_rules(clock: impl Clock, rules: Rules) -> Self {
        let (records, mailboxes) = (BTreeMap::new(), HashMap::new());
        let shared = Mutex::new(Shared { records, mailboxes, rules });
        Self { clock: Arc::new(clock), shared }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leases end by a clock that only goes forward; tokens are drawn from the time of day.
    fn now(&self) -> Now {
        let since_origin = self.clock.now().since_origin();
        let lease_us = u64::try_from(since_origin.as_micros()).unwrap_or(u64::MAX);
        Now { lease_us, token_us: self.clock.wall_us() }
    }
}

impl Shared {
    fn apply(&mut self, operation: Operation, now: Now) -> Result<Answer, StoreError> {
        Ok(match operation {
            Operation::On { name, action } => {
                let Outcome { reply, more, .. } = self.step(name, now, &action);
                Answer::new(now, reply).with_more(more)
            }
            Operation::Renew(leases) => {
                let (mut more, mut replies) = (false, Vec::new());
                for lease in leases {
                    let action = lease.action();
                    let outcome = self.step(lease.name, now, &action);
                    more |= outcome.more;
                    replies.push(outcome.reply);
                }
                Answer::new(now, Reply::Many(replies)).with_more(more)
            }
            Operation::List { prefix, limit, idle } => {
                let listed = self.records.iter().filter(|(name, record)| {
                    name.as_str().starts_with(&prefix) && (idle || !record.is_idle())
                });
                let names = listed.take(limit as usize).map(|(name, _)| name.clone()).collect();
                Answer::new(now, Reply::Names(names))
            }
            Operation::ListPage { prefix, after, keys } => {
                let mut page = Page::default();
                let is_after = |name: &LockName| after.as_deref().is_none_or(|a| name.as_str() > a);
                for (name, record) in &self.records {
                    let is_listed = name.as_str().starts_with(&prefix) && is_after(name);
                    if is_listed && !page.scan(name, !record.is_idle(), keys) {
                        break;
                    }
                }
                Answer::new(now, Reply::Page(page))
            }
            _ => return Err(StoreError::unknown_request()),
        })
    }

    /// One action on one name, and the messages it causes.
    fn step(&mut self, name: LockName, now: Now, action: &Action) -> Outcome {
        let mut record = self.records.remove(&name).unwrap_or_default();
        if record.collect_at_us <= now.lease_us {
            record = Record::default(); // its time was over: nobody relies on it any more
        }
        let outcome = step(&mut record, now, self.rules, action);
        if record.collect_at_us > now.lease_us {
            self.records.insert(name, record);
        }
        for (client, message) in &outcome.messages {
            if let Some(mailbox) = self.mailboxes.get(client) {
                mailbox.post(*message);
            }
        }
        outcome
    }
}

impl Store for OwnStore {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.changes_mode = true;
        can.permits = true;
        can.queued = true;
        can.recorded_tokens = true;
        can.shared = true;
        can.wakes = true;
        can
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move { self.shared().apply(operation, self.now()) })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let mut shared = self.shared();
        shared.mailboxes.retain(|_, mailbox| mailbox.has_reader());
        let mailbox = shared.mailboxes.entry(client).or_default().clone();
        Box::pin(async { Ok(Box::new(Recipient(mailbox)) as Box<dyn Inbox>) })
    }
}
