//! A mailbox, in which the messages of a client wait for it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use leasehold::store::Inbox;
use leasehold::store::protocol::{BoxFuture, Message};

/// The store's end of a mailbox. Clones are the same mailbox.
#[derive(Clone, Default)]
pub(crate) struct Mailbox(Arc<Mutex<Post>>);

#[derive(Default)]
struct Post {
    messages: VecDeque<Message>,
    reader: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn post(&self, message: Message) {
        let mut post = self.lock();
        post.messages.push_back(message);
        if let Some(reader) = post.reader.take() {
            reader.wake();
        }
    }

    /// Whether the client still has the other end.
    pub(crate) fn has_reader(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    fn lock(&self) -> MutexGuard<'_, Post> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client's end of a mailbox.
pub(crate) struct Recipient(pub(crate) Mailbox);

impl Inbox for Recipient {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(poll_fn(|context| {
            let mut post = self.0.lock();
            match post.messages.pop_front() {
                Some(message) => Poll::Ready(message),
                None => {
                    post.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        }))
    }
}
