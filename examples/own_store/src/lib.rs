//! An example of a store that uses only leasehold's public API: one file, for the locks of one
//! process.
//!
//! A store needs only this: [`OwnStore::execute`] applies the model to the record of a name in one
//! atomic step, keeps the changes, and then posts the messages of that step. The records are in a
//! plain file, as the text that [`Record::to_text`](leasehold::store::protocol::Record::to_text)
//! returns, beside one number from which all tokens are drawn. A store with a database does the
//! same inside a transaction.
//!
//! Leases outlive the process. A restart of the machine sets the clock back. Then held leases end
//! after their time to live at the latest, and tokens still grow.
#![forbid(unsafe_code)]

mod mailbox;
mod plain_file;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::LockName;
use leasehold::admin::ClientId;
use leasehold::error::StoreError;
use leasehold::store::protocol::{Action, Addressed, Answer, BoxFuture, Now, Operation, Page};
use leasehold::store::protocol::{Outcome, Reply, Rules, step};
use leasehold::store::{Capabilities, Inbox, Store};
use leasehold::time::Clock;

use crate::mailbox::{Mailbox, Recipient};
use crate::plain_file::{Contents, load, save};

/// Locks in one file, for one process.
#[derive(Debug)]
pub struct OwnStore {
    clock: Arc<dyn Clock>,
    path: PathBuf,
    shared: Mutex<Shared>,
}

struct Shared {
    contents: Contents,
    mailboxes: HashMap<ClientId, Mailbox>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("records", &self.contents.records.len())
            .finish_non_exhaustive()
    }
}

impl OwnStore {
    /// Opens the file at a path, or begins without records if there is no file. Leases end by this
    /// clock.
    ///
    /// # Errors
    ///
    /// If the file exists and cannot be read.
    pub fn open(path: impl Into<PathBuf>, clock: impl Clock) -> Result<Self, StoreError> {
        let path = path.into();
        let shared = Shared { contents: load(&path)?, mailboxes: HashMap::new() };
        Ok(Self { clock: Arc::new(clock), path, shared: Mutex::new(shared) })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of both clocks. Leases end by a clock that only goes forward; tokens come from the
    /// time of day.
    fn now(&self) -> Now {
        let since_origin = self.clock.now().since_origin();
        let lease_us = u64::try_from(since_origin.as_micros()).unwrap_or(u64::MAX);
        Now { lease_us, token_us: self.clock.wall_us() }
    }

    /// Applies one operation: either all of it is in the file before anybody learns of it, or
    /// nothing has changed.
    ///
    /// It waits for the disk. A store should do that in a thread if its callers must not block.
    fn apply(&self, operation: Operation) -> Result<Answer, StoreError> {
        let (mut shared, now) = (self.shared(), self.now());
        let mut work = Work { contents: shared.contents.clone(), messages: Vec::new() };
        let answer = work.apply(operation, now)?;
        if work.contents != shared.contents {
            save(&self.path, &work.contents)?;
            shared.contents = work.contents;
        }
        for (client, message) in work.messages {
            if let Some(mailbox) = shared.mailboxes.get(&client) {
                mailbox.post(message);
            }
        }
        Ok(answer)
    }
}

/// The changes of an operation, and its messages.
struct Work {
    contents: Contents,
    messages: Vec<Addressed>,
}

impl Work {
    fn apply(&mut self, operation: Operation, now: Now) -> Result<Answer, StoreError> {
        let reply = match operation {
            Operation::On { name, action } => self.step(name, now, &action),
            Operation::Keep(leases) => {
                let leases = leases.into_iter();
                Reply::Many(
                    leases.map(|(name, keep)| self.step(name, now, &Action::Keep(keep))).collect(),
                )
            }
            Operation::List { prefix, after, keys } => {
                let mut page = Page::default();
                let is_after = |name: &LockName| after.as_deref().is_none_or(|a| name.as_str() > a);
                for (name, record) in &self.contents.records {
                    let is_listed = name.as_str().starts_with(&prefix) && is_after(name);
                    if is_listed && !page.scan(name, record.is_in_use(now), keys) {
                        break;
                    }
                }
                Reply::Page(page)
            }
            _ => return Err(StoreError::unknown_request()),
        };
        Ok(Answer::new(now, reply))
    }

    /// Applies one action to one name. A name that is free and quiet has no record.
    fn step(&mut self, name: LockName, now: Now, action: &Action) -> Reply {
        let Contents { records, counter } = &mut self.contents;
        let mut record = records.remove(&name).unwrap_or_default();
        let Outcome { reply, messages } = step(&mut record, counter, now, Rules::USUAL, action);
        if !record.is_empty() {
            records.insert(name, record);
        }
        self.messages.extend(messages);
        reply
    }
}

impl Store for OwnStore {
    fn capabilities(&self) -> Capabilities {
        let mut can = Capabilities::default();
        can.permits = true;
        can.queued = true;
        can.recorded_tokens = true;
        can.shared = true;
        can.wakes = true;
        can
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move { self.apply(operation) })
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let mut shared = self.shared();
        shared.mailboxes.retain(|_, mailbox| mailbox.has_reader());
        let mailbox = shared.mailboxes.entry(client).or_default().clone();
        Box::pin(async { Ok(Box::new(Recipient(mailbox)) as Box<dyn Inbox>) })
    }
}
