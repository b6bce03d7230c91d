//! Operations on the records of all names, for stores that keep them.

use crate::name::LockName;
use crate::page::Page;
use crate::request::{Action, Addressed, Answer, Keep, Operation, Reply};
use crate::time::Now;

/// The result of a step, apart from the changed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The answer to the caller.
    pub reply: Reply,
    /// The messages to other clients.
    pub messages: Vec<Addressed>,
}

/// The records of all names.
pub trait Records {
    /// The error if an operation cannot be applied.
    type Error;

    /// The names in use, in order, among the next `keys` names that begin with `prefix` and come
    /// after `after`.
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    fn page(
        &mut self,
        now: Now,
        prefix: &str,
        after: Option<&str>,
        keys: u32,
    ) -> Result<Page, Self::Error>;

    /// Applies [`super::step`] to the record of a name.
    ///
    /// # Errors
    ///
    /// If the record cannot be read or written.
    fn step(&mut self, now: Now, name: &LockName, action: &Action) -> Result<Outcome, Self::Error>;

    /// Keeps one lease of several.
    ///
    /// # Errors
    ///
    /// If none of them can be kept.
    fn keep(&mut self, now: Now, name: &LockName, keep: &Keep) -> Result<Outcome, Self::Error> {
        self.step(now, name, &Action::Keep(keep.clone()))
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
    let Outcome { reply, messages } = match operation {
        Operation::Keep(leases) => {
            let (mut replies, mut messages) = (Vec::new(), Vec::new());
            for (name, keep) in leases {
                let outcome = records.keep(now, name, keep)?;
                replies.push(outcome.reply);
                messages.extend(outcome.messages);
            }
            Outcome { reply: Reply::Many(replies), messages }
        }
        Operation::List { prefix, after, keys } => {
            let reply = Reply::Page(records.page(now, prefix, after.as_deref(), *keys)?);
            Outcome { reply, messages: Vec::new() }
        }
        Operation::On { name, action } => records.step(now, name, action)?,
    };
    Ok((Answer::new(now, reply), messages))
}
