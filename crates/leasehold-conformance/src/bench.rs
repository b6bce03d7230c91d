//! One name in a store, with methods for each action, for the cases that call the store directly.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use leasehold::admin::{ClientId, HolderId, HolderInfo, Status};
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::store::protocol::{
    Action, Answer, Description, End, Grant, Keep, Message, Operation, Place, Reply, Request, Take,
};
use leasehold::store::{Inbox, Store};
use leasehold::{Error, FencingToken, LockName};

use crate::subject::{Subject, fresh_number, must};

/// The ttl of a lease that must not end during the test, even on a busy machine.
pub(super) const LONG: Duration = Duration::from_mins(10);

/// The same for readers in a store that is shared with programs in other languages: a longer lease
/// of a reader is not possible there.
const SHARED_LONG: Duration = Duration::from_secs(30);

/// The ttl of a lease that must end during the test: a test in real time waits that long.
pub(super) const SHORT: Duration = Duration::from_millis(200);

/// A moment after a lease of [`SHORT`] has ended.
pub(super) const AFTER_SHORT: Duration = Duration::from_millis(230);

pub(super) struct Bench<'a> {
    pub(super) subject: &'a Subject,
    pub(super) name: LockName,
    /// The mode that each attempt has asked for: all requests of an attempt say it.
    asked: RefCell<HashMap<HolderId, Mode>>,
}

/// The first attempt of a new client.
pub(super) fn somebody() -> HolderId {
    HolderId { client: ClientId(fresh_number()), attempt: 1 }
}

/// The holder information that the clients of these tests send.
pub(super) fn who() -> HolderInfo {
    HolderInfo::new("host", 42).with_label(Some("a label".into()))
}

/// The next message that tells something.
pub(super) async fn next_but_gaps(inbox: &mut dyn Inbox) -> Message {
    loop {
        match inbox.next().await {
            Message::Gap => {}
            message => return message,
        }
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: &'a Subject) -> Self {
        Self::of(subject, subject.fresh_name("conformance"))
    }

    /// The same, if the store has a queue.
    pub(super) fn with_queue(subject: &'a Subject) -> Option<Self> {
        subject.can().queued.then(|| Self::new(subject))
    }

    pub(super) fn of(subject: &'a Subject, name: LockName) -> Self {
        Self { subject, name, asked: RefCell::default() }
    }

    pub(super) async fn execute(&self, operation: Operation) -> Answer {
        must(self.subject.store().execute(operation).await)
    }

    pub(super) async fn act(&self, action: Action) -> Reply {
        self.answer(action).await.reply
    }

    pub(super) async fn answer(&self, action: Action) -> Answer {
        self.execute(Operation::On { name: self.name.clone(), action }).await
    }

    /// A request that waits.
    pub(super) fn request(&self, id: HolderId, mode: Mode) -> Take {
        self.asked.borrow_mut().insert(id, mode);
        let is_ours = mode != Mode::Shared || self.subject.can().queued;
        let ttl = if is_ours { LONG } else { SHARED_LONG };
        Take::new(Request::new(id, mode, who()), ttl).with_waits(true)
    }

    fn request_of(&self, id: HolderId) -> Request {
        let mode = self.asked.borrow().get(&id).copied();
        Request::new(id, mode.unwrap_or(Mode::Exclusive), who())
    }

    /// A renewal, or a claim.
    pub(super) fn renewal(&self, id: HolderId, ttl: Duration) -> Keep {
        Keep::new(self.request_of(id), ttl)
    }

    pub(super) fn ending(&self, id: HolderId) -> End {
        End::new(self.request_of(id))
    }

    /// Takes the name or joins the queue; keeps the place there.
    pub(super) async fn ask(&self, id: HolderId, mode: Mode) -> Reply {
        self.act(Action::Take(self.request(id, mode))).await
    }

    pub(super) async fn try_acquire(&self, id: HolderId, mode: Mode) -> Reply {
        self.act(Action::Take(self.request(id, mode).with_waits(false))).await
    }

    /// Takes over the lease that `from` was granted.
    pub(super) async fn adopt(&self, id: HolderId, from: HolderId, mode: Mode) -> Reply {
        let take = self.request(id, mode).with_waits(false).with_from(Some(from));
        self.act(Action::Take(take)).await
    }

    /// Takes a lease, which must be granted immediately, and tells the store who holds it.
    pub(super) async fn take(&self, id: HolderId, mode: Mode) -> Grant {
        let grant = granted(self.ask(id, mode).await);
        if !grant.described {
            self.describe(id, grant.token, who()).await;
        }
        grant
    }

    /// Takes a lease whose end a test can wait for.
    pub(super) async fn take_briefly(&self, id: HolderId, mode: Mode) -> Grant {
        granted(self.act(Action::Take(self.request(id, mode).with_ttl(SHORT))).await)
    }

    /// Joins the queue.
    pub(super) async fn wait(&self, id: HolderId, mode: Mode) -> Place {
        match self.ask(id, mode).await {
            Reply::Queued(place) => place,
            other => panic!("it should wait: {other:?}"),
        }
    }

    /// Joins the queue, if the store has one.
    pub(super) async fn wait_if_queued(&self, id: HolderId, mode: Mode) {
        if self.subject.can().queued {
            self.wait(id, mode).await;
        }
    }

    pub(super) async fn is_busy(&self, mode: Mode) -> bool {
        match self.try_acquire(somebody(), mode).await {
            Reply::Busy { .. } => true,
            Reply::Granted(_) => false,
            other => panic!("{other:?}"),
        }
    }

    /// Ends a hold or a wait. Returns whether there was one.
    pub(super) async fn end(&self, end: End) -> bool {
        match self.act(Action::End(end)).await {
            Reply::Ended(was_there) => was_there,
            other => panic!("this ends nothing: {other:?}"),
        }
    }

    pub(super) async fn release(&self, id: HolderId) -> bool {
        self.end(self.ending(id)).await
    }

    pub(super) async fn renew(&self, id: HolderId) -> Reply {
        self.act(Action::Keep(self.renewal(id, LONG))).await
    }

    /// Renews a lease that is held.
    pub(super) async fn keep(&self, id: HolderId) {
        let reply = self.renew(id).await;
        assert!(matches!(reply, Reply::Kept { .. }), "it holds: {reply:?}");
    }

    pub(super) async fn describe(&self, id: HolderId, token: FencingToken, info: HolderInfo) {
        let description = Some(Box::new(Description::new(token, info)));
        let keep = self.renewal(id, LONG).with_description(description);
        let reply = self.act(Action::Keep(keep)).await;
        assert!(matches!(reply, Reply::Kept { .. }), "it holds: {reply:?}");
    }

    /// Ends a hold for an operator. Returns whether the attempt held.
    pub(super) async fn revoke(&self, id: HolderId, force: bool) -> bool {
        match self.act(Action::Revoke { id, force }).await {
            Reply::Ended(was_held) => was_held,
            other => panic!("this revokes nothing: {other:?}"),
        }
    }

    pub(super) async fn status(&self) -> Status {
        match self.act(Action::Look { limit: 100 }).await {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    /// The holders, in the order of their tokens.
    pub(super) async fn holders(&self) -> Vec<HolderId> {
        let mut holders = self.status().await.holders;
        holders.sort_by_key(|holder| holder.token);
        holders.into_iter().map(|holder| holder.id).collect()
    }
}

/// The result of a call that the store answers. In real time, a busy machine may delay an answer
/// beyond the limit of a call that waits briefly or not at all. Then this function repeats the
/// call.
pub(super) async fn answered<T>(
    subject: &Subject,
    mut call: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match call().await {
            Err(Error::Indeterminate { source: error, .. } | Error::Store(error))
                if error.kind() == StoreErrorKind::Timeout && subject.is_real() => {}
            outcome => return outcome,
        }
    }
}

/// The grant in a reply that must be one.
#[track_caller]
pub(super) fn granted(reply: Reply) -> Grant {
    match reply {
        Reply::Granted(grant) => grant,
        other => panic!("this should be a grant: {other:?}"),
    }
}
