//! What a script says: its reply as an [`Answer`], its message as a [`Message`].
//!
//! A reply is an array: the server's now in microseconds, whether to ask again at once, a word
//! that is the name of the [`Reply`], and what belongs to that.

use std::time::Duration;

use leasehold_core::{
    Answer, Cancelled, FencingToken, Grant, HoldState, Holder, Message, Mode, Now, Place, Refusal,
    Reply, Status, StoreError, StoreErrorKind, Waiter,
};
use redis::Value;

use super::wire::{facts_of, holder_of, whole};

/// The answer that a reply stands for; `is_batch` if it belongs to a renewal of many.
pub(super) fn answer(reply: Value, is_batch: bool) -> Result<Answer, StoreError> {
    let (now, more, mut replies) = parse(reply).ok_or_else(foreign)?;
    let reply = if is_batch {
        // One damaged record must not keep the other leases from being renewed; and its own
        // holder can no longer say that it holds it.
        let not_held = || Reply::NotHeld { newest: None };
        Reply::Many(replies.into_iter().map(|reply| reply.unwrap_or_else(not_held)).collect())
    } else {
        let reply = if replies.len() == 1 { replies.pop() } else { None };
        reply.ok_or_else(foreign)?.ok_or_else(|| {
            let what = "the key of this lock is damaged: look at it, and delete it to mend it";
            StoreError::new(StoreErrorKind::Corrupt, what)
        })?
    };
    Ok(Answer { now, more, reply })
}

fn foreign() -> StoreError {
    let what = "the server's reply is none of leasehold's: is something between that changes it?";
    StoreError::new(StoreErrorKind::Corrupt, what).maybe_executed()
}

/// A reply, or `None` where the record was damaged.
type Found = Option<Reply>;

fn parse(reply: Value) -> Option<(Now, bool, Vec<Found>)> {
    let mut items = Items::of(reply)?;
    let now_us = items.number()?;
    let more = items.flag()?;
    let word = items.bytes()?;
    let replies = if word == b"many" {
        std::iter::from_fn(|| items.0.next())
            .map(|reply| {
                let mut items = Items::of(reply)?;
                let word = items.bytes()?;
                items.reply(&word, now_us)
            })
            .collect::<Option<_>>()?
    } else {
        vec![items.reply(&word, now_us)?]
    };
    Some((Now { lease_us: now_us, token_us: now_us }, more, replies))
}

/// The elements of an array, taken one by one.
struct Items(std::vec::IntoIter<Value>);

impl Items {
    fn of(value: Value) -> Option<Self> {
        match value {
            Value::Array(items) => Some(Self(items.into_iter())),
            _ => None,
        }
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Option<T> {
        match self.0.next()? {
            Value::Int(number) => number.try_into().ok(),
            _ => None,
        }
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number::<u8>()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn span(&mut self) -> Option<Duration> {
        self.number().map(Duration::from_micros)
    }

    fn token(&mut self) -> Option<FencingToken> {
        self.number().map(FencingToken::at_us)
    }

    /// Zero says that there is none.
    fn newest(&mut self) -> Option<Option<FencingToken>> {
        let token_us = self.number::<u64>()?;
        Some((token_us > 0).then(|| FencingToken::at_us(token_us)))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        match self.0.next()? {
            Value::BulkString(bytes) => Some(bytes),
            _ => None,
        }
    }

    fn reply(&mut self, word: &[u8], now_us: u64) -> Option<Found> {
        let reply = match word {
            b"busy" => Reply::Busy { retry_after: self.span()? },
            b"cancelled" => Reply::Cancelled(match self.bytes()?.as_slice() {
                b"released" => Cancelled::Released,
                b"removed" => Cancelled::Removed,
                b"unknown" => Cancelled::Unknown,
                _ => return None,
            }),
            b"corrupt" => return Some(None),
            b"gone" => Reply::Gone,
            b"granted" => Reply::Granted(Grant {
                token: self.token()?,
                deadline_us: self.number()?,
                contended: self.flag()?,
            }),
            b"late" => Reply::Late,
            b"not_held" => Reply::NotHeld { newest: self.newest()? },
            b"queued" => Reply::Queued(Place {
                sequence: self.number()?,
                ahead: self.number()?,
                retry_after: self.span()?,
            }),
            b"refused" => Reply::Refused(self.refusal()?),
            b"released" => Reply::Released,
            b"revoked" => Reply::Revoked(self.flag()?),
            b"stale" => Reply::Stale,
            b"status" => Reply::Status(Box::new(self.status(now_us)?)),
            b"would_deadlock" => Reply::WouldDeadlock,
            _ => return None,
        };
        Some(Some(reply))
    }

    fn refusal(&mut self) -> Option<Refusal> {
        Some(match self.bytes()?.as_slice() {
            b"mismatch" => Refusal::Mismatch { capacity: self.number()? },
            b"queue_full" => Refusal::QueueFull,
            b"version" => Refusal::Version { found: self.number()? },
            b"weight" => Refusal::Weight,
            _ => return None,
        })
    }

    fn status(&mut self, now_us: u64) -> Option<Status> {
        let capacity = self.number()?;
        let last_token = self.newest()?;
        let waiting = self.number()?;
        let holders = Self::of(self.0.next()?)?
            .0
            .map(|holder| Self::of(holder)?.holder(capacity, now_us))
            .collect::<Option<_>>()?;
        let waiters = Self::of(self.0.next()?)?
            .0
            .zip(1..)
            .map(|(waiter, position)| Self::of(waiter)?.waiter(capacity, now_us, position))
            .collect::<Option<_>>()?;
        Some(Status { holders, waiters, waiting, last_token })
    }

    fn holder(&mut self, capacity: u32, now_us: u64) -> Option<Holder> {
        Some(Holder {
            id: holder_of(&self.bytes()?)?,
            mode: Mode::of(self.number()?, capacity),
            state: match self.number::<u8>()? {
                0 => HoldState::Claimed,
                1 => HoldState::Kept,
                2 => HoldState::Revoked,
                3 => HoldState::Unclaimed,
                _ => return None,
            },
            token: self.token()?,
            held_for: Duration::from_micros(now_us.saturating_sub(self.number()?)),
            ttl_left: Duration::from_micros(self.number::<u64>()?.saturating_sub(now_us)),
            facts: facts_of(&self.bytes()?)?,
        })
    }

    fn waiter(&mut self, capacity: u32, now_us: u64, position: u32) -> Option<Waiter> {
        Some(Waiter {
            id: holder_of(&self.bytes()?)?,
            mode: Mode::of(self.number()?, capacity),
            waited: Duration::from_micros(now_us.saturating_sub(self.number()?)),
            facts: facts_of(&self.bytes()?)?,
            position,
        })
    }
}

/// The message that a payload of an inbox stands for, or `None` if it is none of our scripts'.
pub fn message(payload: &[u8]) -> Option<Message> {
    let (kind, mut rest) = payload.split_first()?;
    let mut eight = || {
        let (eight, after) = rest.split_first_chunk::<8>()?;
        rest = after;
        Some(*eight)
    };
    let number = |bytes| whole(f64::from_le_bytes(bytes));
    let attempt = number(eight()?)?;
    let nonce = u64::from_be_bytes(eight()?);
    match kind {
        b'G' => {
            let token = FencingToken::at_us(number(eight()?)?);
            let (now_us, deadline_us) = (number(eight()?)?, number(eight()?)?);
            let message = Message::Granted { attempt, nonce, token, now_us, deadline_us };
            rest.is_empty().then_some(message)
        }
        b'R' => {
            let token = FencingToken::from_number(u64::from_be_bytes(eight()?))?;
            let forced = match rest {
                [0] => false,
                [1] => true,
                _ => return None,
            };
            Some(Message::Revoked { attempt, nonce, token, forced })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(items: Vec<Value>) -> Value {
        Value::Array(items)
    }

    fn word(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn a_foreign_reply_is_an_error_after_which_nothing_is_certain() {
        let now = Value::Int(1);
        for reply in [
            Value::Nil,
            Value::Okay,
            words(vec![]),
            words(vec![now.clone(), Value::Int(0)]),
            words(vec![now.clone(), Value::Int(0), word("hello")]),
            words(vec![now.clone(), Value::Int(2), word("gone")]),
            words(vec![now.clone(), Value::Int(0), word("granted"), Value::Int(-1)]),
            words(vec![now.clone(), Value::Int(0), word("refused"), word("mood")]),
            words(vec![now.clone(), Value::Int(0), word("many")]),
        ] {
            let error = answer(reply.clone(), false).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{reply:?}");
            assert!(error.may_have_executed(), "{reply:?}");
        }
    }

    #[test]
    fn one_damaged_record_does_not_fail_the_renewal_of_the_others() {
        let damaged = words(vec![word("corrupt")]);
        let revoked = words(vec![word("revoked"), Value::Int(1)]);
        let many = |replies: Vec<Value>| {
            let begin = vec![Value::Int(7), Value::Int(0), word("many")];
            words(begin.into_iter().chain(replies).collect())
        };
        let replies = answer(many(vec![damaged.clone(), revoked]), true).unwrap().reply;
        let expected = vec![Reply::NotHeld { newest: None }, Reply::Revoked(true)];
        assert_eq!(replies, Reply::Many(expected));
        let error = answer(many(vec![damaged]), false).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(!error.may_have_executed());
    }

    #[test]
    fn a_payload_of_a_wrong_length_is_no_message() {
        let numbers = |count: usize| std::iter::repeat_n(1f64.to_le_bytes(), count).flatten();
        let granted: Vec<u8> = std::iter::once(b'G').chain(numbers(5)).collect();
        assert!(matches!(message(&granted), Some(Message::Granted { attempt: 1, .. })));
        assert_eq!(message(&granted[..40]), None);
        assert_eq!(message(&[&granted[..], b"x"].concat()), None);
        let revoked: Vec<u8> = std::iter::once(b'R').chain(numbers(3)).chain([1]).collect();
        assert!(matches!(message(&revoked), Some(Message::Revoked { forced: true, .. })));
        assert_eq!(message(&[&revoked[..25], &[2]].concat()), None);
        assert_eq!(message(b""), None);
        assert_eq!(message(b"hello"), None);
    }
}
