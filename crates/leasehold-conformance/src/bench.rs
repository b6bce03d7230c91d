//! One name in a store, with a method per action, for the cases that call the store directly.

use std::time::Duration;

use leasehold::admin::{ClientId, HolderId, HolderInfo, Status};
use leasehold::error::StoreErrorKind;
use leasehold::lease::Mode;
use leasehold::store::Store;
use leasehold::store::protocol::NOT_AFTER;
use leasehold::store::protocol::{Acquire, Action, Adopt, Answer, Grant, Operation, Reply};
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
}

/// The renewal of a lease.
pub(super) fn renewal(id: HolderId, ttl: Duration) -> Action {
    Action::Renew { id, ttl }
}

/// The first attempt of a new client.
pub(super) fn somebody() -> HolderId {
    HolderId { client: ClientId(fresh_number()), attempt: 1 }
}

/// The holder information that the clients of these tests send.
pub(super) fn who() -> HolderInfo {
    HolderInfo::new("host", 42).with_label(Some("a label".into()))
}

impl<'a> Bench<'a> {
    pub(super) fn new(subject: &'a Subject) -> Self {
        Self { subject, name: subject.fresh_name("conformance") }
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

    pub(super) async fn request(&self, id: HolderId, mode: Mode) -> Acquire {
        let now = self.answer(Action::Inspect { limit: 0 }).await.now;
        let is_ours = mode != Mode::Shared || self.subject.can().queued;
        Acquire::new(id, mode, if is_ours { LONG } else { SHARED_LONG })
            .with_wait(true)
            .with_nonce(7)
            .with_not_after(now.lease_us + NOT_AFTER.as_micros() as u64)
            .with_info(who())
    }

    pub(super) async fn acquire(&self, id: HolderId, mode: Mode) -> Reply {
        let request = self.request(id, mode).await;
        self.act(Action::Acquire(request)).await
    }

    pub(super) async fn try_acquire(&self, id: HolderId, mode: Mode) -> Reply {
        let request = self.request(id, mode).await.with_wait(false);
        self.act(Action::Acquire(request)).await
    }

    /// The request of `id` to adopt the lease that `from` was granted.
    pub(super) async fn adoption(
        &self,
        id: HolderId,
        from: (HolderId, FencingToken),
        mode: Mode,
    ) -> Adopt {
        Adopt::new(from.0, Some(from.1), self.request(id, mode).await)
    }

    /// Acquires a lease, which must be granted immediately.
    pub(super) async fn take(&self, id: HolderId, mode: Mode) -> Grant {
        granted(self.acquire(id, mode).await)
    }

    /// Acquires with a ttl whose end a test can wait for.
    pub(super) async fn take_briefly(&self, id: HolderId, mode: Mode) -> Grant {
        let request = self.request(id, mode).await.with_ttl(SHORT);
        granted(self.act(Action::Acquire(request)).await)
    }

    /// Joins the queue.
    pub(super) async fn wait(&self, id: HolderId, mode: Mode) {
        let reply = self.acquire(id, mode).await;
        assert!(matches!(reply, Reply::Queued(_)), "it should wait: {reply:?}");
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

    pub(super) async fn poll(&self, id: HolderId) -> Reply {
        self.act(Action::Poll { id, ttl: LONG }).await
    }

    pub(super) async fn release(&self, id: HolderId) -> Reply {
        self.act(Action::Release { id, cooldown: Duration::ZERO, unanswered: false }).await
    }

    pub(super) async fn renew(&self, id: HolderId) -> Reply {
        self.act(renewal(id, LONG)).await
    }

    pub(super) async fn cancel(&self, id: HolderId) -> Reply {
        self.act(Action::Cancel { id, unanswered: false }).await
    }

    pub(super) async fn revoke(&self, id: HolderId, token: FencingToken, force: bool) -> Reply {
        self.act(Action::Revoke { id, token, force }).await
    }

    pub(super) async fn status(&self) -> Status {
        match self.act(Action::Inspect { limit: 100 }).await {
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
