//! The common base of the parts: a record with a name, and the checks of its arguments.

use std::sync::Arc;
use std::time::Duration;

use leasehold::error::{InvalidInput, StoreError, StoreErrorKind};
use leasehold::fence::Fence;
use leasehold::{Error, Result};

use crate::model::{Action, Answer, Id, Reply, Request};
use crate::store::DataStore;

/// How long orders are remembered by default: 24 h. After more than a day, no caller
/// repeats a request whose reply was lost. A hundred thousand orders take some 30 MB.
pub const DEFAULT_REMEMBER: Duration = Duration::from_hours(24);

/// The range of `remember`: long enough for any retry to arrive, and at most a year.
const REMEMBER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_hours(24 * 365));

/// One record of one part, and the fence of the lease under which it is used.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    store: Arc<dyn DataStore>,
    name: std::result::Result<Id, InvalidInput>,
    fence: Option<Fence>,
}

impl Part {
    /// `what` names the part, such as `stock`, in the error for an invalid `name`.
    pub(crate) fn new(store: &Arc<dyn DataStore>, what: &'static str, name: &str) -> Self {
        Self { store: Arc::clone(store), name: Id::new(what, name), fence: None }
    }

    pub(crate) fn guarded(mut self, fence: impl Into<Fence>) -> Self {
        self.fence = Some(fence.into());
        self
    }

    pub(crate) async fn apply(&self, action: Action) -> Result<Answer> {
        let name = self.name.clone()?;
        let request = Request { name, fence: self.fence.clone(), action };
        let answer = self.store.apply(request).await?;
        match (&answer.reply, &self.fence) {
            (Reply::Fenced(newest), Some(fence)) => Err(fence.overtaken_by(*newest)),
            _ => Ok(answer),
        }
    }

    pub(crate) fn mismatch(&self, what: &str) -> Error {
        let name = self.name.as_ref().map(Id::as_str).unwrap_or_default();
        StoreError::new(StoreErrorKind::Mismatch, format!("{name}: {what}")).into()
    }
}

/// The error for a reply that does not belong to the request.
pub(crate) fn unexpected(reply: &Reply) -> Error {
    let text = format!("the store gave an answer that does not fit the question: {reply:?}");
    StoreError::new(StoreErrorKind::Corrupt, text).maybe_executed().into()
}

pub(crate) fn remember_us(span: Duration) -> std::result::Result<u64, InvalidInput> {
    in_range("remember", span, REMEMBER)
}

/// A duration in microseconds, or an error if it is out of range.
pub(crate) fn in_range(
    what: &'static str,
    span: Duration,
    (least, most): (Duration, Duration),
) -> std::result::Result<u64, InvalidInput> {
    if span < least || span > most {
        let show = leasehold::time::show_duration;
        let (span, least, most) = (show(span), show(least), show(most));
        let why = format!("`{what}` is {span}: give {least} to {most}");
        return Err(InvalidInput::new(what, why));
    }
    Ok(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
