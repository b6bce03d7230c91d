//! Messages that a server pushes. A limited number of them is kept until they are read.
//!
//! If a server pushes more messages than are read, or a message longer than any of ours, its
//! connection is closed. That is a gap like any other, so waiters ask the store.

use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The largest number of messages that wait to be read: 1 024, far more than come while the reader
/// does something else.
const MOST: usize = 1024;

/// The longest message that is kept: 4 kB. Our messages have some hundred bytes, and a name has 512
/// at most. So the waiting messages take 4 MB at most.
const LONGEST: usize = 4096;

/// The sender by which the driver of a connection passes on the server's messages.
pub(crate) struct PushSender(Option<Sender<Vec<u8>>>);

/// The payloads of the messages on a connection.
pub(crate) struct Pushes(Receiver<Vec<u8>>);

/// A channel for the messages of one connection.
pub(crate) fn pushes() -> (PushSender, Pushes) {
    let (sender, receiver) = channel(MOST);
    (PushSender(Some(sender)), Pushes(receiver))
}

impl PushSender {
    /// Keeps a push that is a message. Closes the channel if a message cannot be kept, or if no
    /// more messages will come.
    pub(super) fn send(&mut self, push: PushInfo) {
        let PushInfo { kind, mut data } = push;
        let is_kept = match (kind, data.pop()) {
            // The slot of a sharded channel was moved away.
            (PushKind::Disconnection | PushKind::SUnsubscribe, _) => false,
            // The data are the channel and the payload.
            (PushKind::Message | PushKind::SMessage, Some(Value::BulkString(payload))) => {
                payload.len() <= LONGEST
                    && self.0.as_ref().is_some_and(|sender| sender.try_send(payload).is_ok())
            }
            // The confirmation of the subscription, or a push that later servers may add.
            _ => true,
        };
        if !is_kept {
            self.0 = None;
        }
    }
}

impl Pushes {
    /// The next payload, or `None` once a message may have been lost.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        self.0.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: usize) -> PushInfo {
        let data = vec![Value::BulkString(b"c".to_vec()), Value::BulkString(vec![b'm'; length])];
        PushInfo { kind: PushKind::Message, data }
    }

    #[tokio::test]
    async fn what_is_not_read_is_kept_up_to_a_bound_and_then_there_is_a_gap() {
        let (mut sender, mut pushes) = pushes();
        for _ in 0..100 * MOST {
            sender.send(message(10));
        }
        for _ in 0..MOST {
            assert!(pushes.next().await.is_some());
        }
        assert_eq!(pushes.next().await, None);
        sender.send(message(10));
        assert_eq!(pushes.next().await, None, "nothing follows a gap on one connection");
    }

    #[tokio::test]
    async fn a_message_longer_than_any_of_ours_is_a_gap() {
        let (mut sender, mut pushes) = pushes();
        sender.send(message(LONGEST));
        sender.send(message(LONGEST + 1));
        assert_eq!(pushes.next().await.map(|payload| payload.len()), Some(LONGEST));
        assert_eq!(pushes.next().await, None);
    }

    #[tokio::test]
    async fn what_is_no_message_is_not_kept() {
        let (mut sender, mut pushes) = pushes();
        for _ in 0..2 * MOST {
            sender.send(PushInfo { kind: PushKind::Subscribe, data: vec![Value::Nil] });
        }
        sender.send(message(1));
        assert_eq!(pushes.next().await, Some(b"m".to_vec()));
        sender.send(PushInfo { kind: PushKind::Disconnection, data: Vec::new() });
        assert_eq!(pushes.next().await, None);
    }
}
