//! Operations on the records of all names, for stores that keep them.

use super::step::Outcome;
use crate::name::LockName;
use crate::page::Page;
use crate::request::{Action, Addressed, Answer, Operation, RenewLease, Reply};
use crate::time::Now;

/// The records of all names.
pub trait Records {
    /// The error if an operation cannot be applied.
    type Error;

    /// The names that begin with `prefix` and are in use, in order, at most `limit` of them.
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    fn list(&mut self, prefix: &str, limit: u32) -> Result<Vec<LockName>, Self::Error>;

    /// The names in use, in order, among the next `keys` names that begin with `prefix` and come
    /// after `after`.
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    fn page(&mut self, prefix: &str, after: Option<&str>, keys: u32) -> Result<Page, Self::Error>;

    /// Applies [`super::step`] to the record of a name.
    ///
    /// # Errors
    ///
    /// If the record cannot be read or written.
    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, Self::Error>;

    /// Renews one lease of several.
    ///
    /// # Errors
    ///
    /// If none of them can be renewed.
    fn renew(&mut self, now: Now, lease: &RenewLease) -> Result<Outcome, Self::Error> {
        self.step(now, &lease.name, &lease.action())
    }
}

/// Applies an operation. Returns the answer, and the messages to other clients.
///
/// # Errors
///
/// The first error that the records report.
pub fn apply<R: Records>(
    records: &mut R,
    now: Now,
    operation: &Operation,
) -> Result<(Answer, Vec<Addressed>), R::Error> {
    let Outcome { reply, messages, more } = match operation {
        Operation::List { prefix, limit } => {
            let reply = Reply::Names(records.list(prefix, *limit)?);
            Outcome { reply, messages: Vec::new(), more: false }
        }
        Operation::ListPage { prefix, after, keys } => {
            let reply = Reply::Page(records.page(prefix, after.as_deref(), *keys)?);
            Outcome { reply, messages: Vec::new(), more: false }
        }
        Operation::On { name, action } => records.step(now, name, action)?,
        Operation::Renew(leases) => {
            let (mut replies, mut messages, mut more) = (Vec::new(), Vec::new(), false);
            for lease in leases {
                let outcome = records.renew(now, lease)?;
                replies.push(outcome.reply);
                messages.extend(outcome.messages);
                more |= outcome.more;
            }
            Outcome { reply: Reply::Many(replies), messages, more }
        }
    };
    Ok((Answer { now, more, reply }, messages))
}
