//! Callers of one client that ask at the same time share a transaction. While all sessions are
//! busy, requests gather, and the next transaction takes all of them.

use std::collections::VecDeque;
use std::fmt;
use std::iter;
use std::sync::Arc;

use leasehold_core::{Answer, BoxFuture, StoreError, StoreErrorKind};
use tokio::sync::oneshot;

use crate::mutex::Mutex;

/// The largest number of requests in one transaction: 64. Nobody else can use their names until the
/// transaction commits.
const MOST: usize = 64;

/// The result of a request: an answer, or nothing if a general step must do the request.
type Tried = Result<Option<Answer>, StoreError>;

/// Requests that are sent together, and the result of each.
type Sending = BoxFuture<'static, Result<Vec<Option<Answer>>, StoreError>>;

/// The requests of one kind.
pub(crate) struct Lane<T> {
    send: Box<dyn Fn(Vec<T>) -> Sending + Send + Sync>,
    /// The largest number of transactions at the same time.
    sessions: usize,
    gathered: Mutex<Gathered<T>>,
}

struct Gathered<T> {
    under_way: usize,
    waiting: VecDeque<(T, oneshot::Sender<Tried>)>,
}

impl<T> fmt::Debug for Lane<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Lane<T> {
    pub(crate) fn new(
        sessions: usize,
        send: impl Fn(Vec<T>) -> Sending + Send + Sync + 'static,
    ) -> Arc<Self> {
        let gathered = Gathered { under_way: 0, waiting: VecDeque::new() };
        Arc::new(Self { send: Box::new(send), sessions, gathered: Mutex::new(gathered) })
    }

    /// Sends a request, alone or with others. It runs on the keeper's runtime.
    pub(crate) async fn ask(self: &Arc<Self>, what: T) -> Tried {
        let (sender, receiver) = oneshot::channel();
        self.gathered.lock().waiting.push_back((what, sender));
        self.set_out();
        receiver.await.unwrap_or_else(|_| {
            let text = "the keeper's thread has ended";
            Err(StoreError::new(StoreErrorKind::Unreachable, text).maybe_executed())
        })
    }

    /// Sends the requests that have gathered, if a session is free for them.
    fn set_out(self: &Arc<Self>) {
        let mut gathered = self.gathered.lock();
        if gathered.under_way >= self.sessions || gathered.waiting.is_empty() {
            return;
        }
        gathered.under_way += 1;
        let count = gathered.waiting.len().min(MOST);
        let (asked, askers): (Vec<_>, Vec<_>) = gathered.waiting.drain(..count).unzip();
        drop(gathered);
        let (lane, sent) = (Arc::clone(self), (self.send)(asked));
        tokio::spawn(async move {
            let sent = sent.await;
            lane.gathered.lock().under_way -= 1;
            lane.set_out();
            let tried: Box<dyn Iterator<Item = Tried> + Send> = match sent {
                Ok(answers) => Box::new(answers.into_iter().map(Ok).chain(iter::repeat(Ok(None)))),
                Err(error) => Box::new(iter::repeat(Err(error))),
            };
            for (asker, tried) in askers.into_iter().zip(tried) {
                // The send fails if the caller has gone.
                let _ = asker.send(tried);
            }
        });
    }
}
