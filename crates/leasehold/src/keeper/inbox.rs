//! The inbox: what the store tells this client, and which call or lease that is for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::backoff::Backoff;
use leasehold_core::bugs::{self, Bug};
use leasehold_core::{BoxFuture, Instant, LossReason, Message, StoreError};

use super::Keeper;
use super::lease::Told;
use crate::event::Event;
use crate::store::Inbox;

/// The first and the longest delay before an inbox that could not be opened is tried again.
const INBOX_BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// The receiver for the messages of a client, once the client wants any.
pub(super) struct Listener {
    keeper: Arc<Keeper>,
    inbox: Option<Box<dyn Inbox>>,
    /// An inbox that is being opened.
    pub(super) opening: Option<BoxFuture<'static, Result<Box<dyn Inbox>, StoreError>>>,
    /// The time at which the next inbox is opened.
    open_at: Instant,
    backoff: Backoff,
    /// The observer has been warned that the inbox cannot be opened.
    is_warned: bool,
    pub(super) is_wanted: bool,
}

impl Keeper {
    /// Opens the inbox, unless it is open: a caller waits for a grant, or the store shows who has a
    /// lease, so that somebody may revoke it. A free pair needs no inbox.
    pub(crate) fn listen(&self) {
        if !self.wants_inbox.swap(true, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// Passes a message on.
    pub(super) fn received(self: &Arc<Self>, message: Message) {
        match message {
            Message::Granted { attempt, token, now_us } => {
                let call = self.table().calls.get(&attempt).cloned();
                if let Some(call) = call {
                    call.tell(Told::Granted { token, now_us });
                }
            }
            Message::Revoked { attempt, .. } => {
                let state = {
                    let table = self.table();
                    let let_go = table.let_go.get(&attempt).map(|let_go| &let_go.state);
                    table.leases.get(self.id(attempt)).or(let_go).cloned()
                };
                if let Some(state) = state {
                    self.lose(&state, LossReason::Revoked);
                }
            }
            // A gap, or a message that only a newer version of leasehold understands. It may be
            // about anything.
            _ => {
                let now = self.store.now();
                let mut table = self.table();
                if !bugs::is_on(Bug::NoPollAfterGap) {
                    table.calls.values().for_each(|call| call.tell(Told::Ask));
                }
                table.leases.renew_all(now, self.jitter());
            }
        }
    }
}

impl Listener {
    pub(super) fn new(keeper: &Arc<Keeper>) -> Self {
        Self {
            keeper: Arc::clone(keeper),
            inbox: None,
            opening: None,
            open_at: Instant::default(),
            backoff: Backoff::new(INBOX_BACKOFF, keeper.jitter()),
            is_warned: false,
            is_wanted: false,
        }
    }

    pub(super) fn listens(&self) -> bool {
        self.is_wanted || self.inbox.is_some() || self.opening.is_some()
    }

    /// The next message. A new inbox begins with a gap, because a waiter that joined before the
    /// inbox was open may have been granted. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Message {
        loop {
            if let Some(inbox) = &mut self.inbox {
                return inbox.next().await;
            }
            if self.open().await && !bugs::is_on(Bug::SubscribesAfterJoining) {
                return Message::Gap;
            }
        }
    }

    /// Opens the inbox, and returns whether it is open.
    async fn open(&mut self) -> bool {
        let keeper = &self.keeper;
        if self.opening.is_none() {
            keeper.store.clock.sleep_until(self.open_at).await;
        }
        let opening = self.opening.get_or_insert_with(|| {
            let keeper = Arc::clone(keeper);
            Box::pin(async move { keeper.store.inner.inbox(keeper.client).await })
        });
        let opened = opening.await;
        self.opening = None;
        // It is set already if this is not the first inbox.
        let _ = keeper.listens.set(());
        match opened {
            Ok(inbox) => {
                self.inbox = Some(inbox);
                self.backoff.reset();
                self.is_warned = false;
                // The client may have ended meanwhile. The new inbox has registered it at the store
                // again, so the store must forget it again.
                keeper.forget_if_over();
                true
            }
            Err(error) => {
                if keeper.ensure_open().is_ok() && !std::mem::replace(&mut self.is_warned, true) {
                    let text = format!("no messages from the store, waiters only ask: {error}");
                    keeper.observe(&Event::Warning { text: &text });
                }
                self.open_at = keeper.store.now() + self.backoff.next_delay();
                false
            }
        }
    }
}
