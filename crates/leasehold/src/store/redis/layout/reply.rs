//! Decodes the output of scripts: a reply as an [`Answer`], a message as a [`Message`].

use std::time::Duration;

use leasehold_core::model::{self, Gate, Record, Rules, Share, Waiter, text};
use leasehold_core::{
    Action, Answer, FencingToken, Grant, Message, Now, Place, Refusal, Reply, StoreError,
    StoreErrorKind,
};
use redis::{FromRedisValue, Value};

use super::{Set, shared};

/// Reads a reply.
pub(crate) type Decode = fn(Value) -> Result<Answer, StoreError>;

/// Decodes the reply to a take.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if the record is damaged (the script has left it as it is),
/// or if the reply is not from one of our scripts.
pub(crate) fn taken(value: Value) -> Result<Answer, StoreError> {
    let text = words(value)?;
    if let Some(done) = text.strip_prefix("D ") {
        return done_before(done).ok_or_else(unexpected_reply);
    }
    let mut words = text.split(' ');
    let found = take(&mut words).filter(|_| words.next().is_none());
    let (reply, now_us) = found.ok_or_else(unexpected_reply)?;
    let reply = undamaged(reply)?;
    Ok(match now_us {
        Some(now_us) => Answer::new(now(now_us), reply),
        None => Answer::untimed(reply),
    })
}

/// The answer that a run has succeeded: the time until the next, the time now, and that run.
fn done_before(text: &str) -> Option<Answer> {
    let mut words = text.splitn(3, ' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (next_in, now) = (Duration::from_millis(number()?), now(number()?));
    let last = Box::new(text::read_last(words.next()?, u64::MAX)?.seen_at(now));
    Some(Answer::new(now, Reply::Done { last, next_in }))
}

fn take<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<(Reply, Option<u64>)> {
    let kind = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let reply = match kind {
        "B" => Reply::Busy { retry_after: Duration::from_millis(number()?) },
        "C" => Reply::Closed,
        "F" => Reply::Refused(Refusal::QueueFull),
        "G" => Reply::Granted(Grant::new(shared::token(words.next()?)?.0)),
        "M" => Reply::Refused(Refusal::Mismatch { capacity: u32::try_from(number()?).ok()? }),
        "N" => Reply::NotHeld,
        "Q" => {
            let (sequence, ahead) = (number()?, u32::try_from(number()?).ok()?);
            let retry_after = Duration::from_millis(number()?);
            let capacity = u32::try_from(number()?).ok().filter(|capacity| *capacity > 0);
            let place = Place::new(sequence, ahead, retry_after).with_other_capacity(capacity);
            return Some((Reply::Queued(place), Some(number()?)));
        }
        "R" => Reply::Revoked,
        "V" => Reply::Refused(Refusal::Ballot),
        "X" => Reply::Refused(Refusal::Damaged),
        _ => return None,
    };
    Some((reply, None))
}

/// Decodes the reply to a SET with a number.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) for another reply.
pub(crate) fn set(value: Value) -> Result<Set, StoreError> {
    match value {
        Value::Int(number) => {
            let number = u64::try_from(number).map_err(|_| unexpected_reply())?;
            Ok(Set::Numbered(FencingToken::from_micros(number)))
        }
        Value::Nil => Ok(Set::Taken),
        Value::Okay => Ok(Set::Unnumbered),
        _ => Err(unexpected_reply()),
    }
}

/// Decodes the reply to a keep.
///
/// # Errors
///
/// Like [`taken`].
pub(crate) fn kept(value: Value) -> Result<Answer, StoreError> {
    let replies = each_kept(value)?;
    match <[Reply; 1]>::try_from(replies) {
        Ok([reply]) => Ok(Answer::untimed(undamaged(reply)?)),
        Err(_) => Err(unexpected_reply()),
    }
}

/// Decodes the reply to the keep of many leases. A damaged record makes only its own keep fail.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if the reply is not from one of our scripts.
pub(crate) fn many_kept(value: Value) -> Result<Answer, StoreError> {
    Ok(Answer::untimed(Reply::Many(each_kept(value)?)))
}

fn each_kept(value: Value) -> Result<Vec<Reply>, StoreError> {
    let reply = |letter| match letter {
        '-' => Some(Reply::NotHeld),
        'h' => Some(Reply::Kept { contended: false }),
        'r' => Some(Reply::Revoked),
        'v' => Some(Reply::Refused(Refusal::Ballot)),
        'w' => Some(Reply::Kept { contended: true }),
        'x' => Some(Reply::Refused(Refusal::Damaged)),
        _ => None,
    };
    words(value)?.chars().map(reply).collect::<Option<_>>().ok_or_else(unexpected_reply)
}

/// Decodes the reply to an end, or to a revocation.
///
/// # Errors
///
/// Like [`taken`].
pub(crate) fn ended(value: Value) -> Result<Answer, StoreError> {
    let reply = match words(value)?.as_str() {
        "0" => Reply::Ended(false),
        "1" => Reply::Ended(true),
        "x" => Reply::Refused(Refusal::Damaged),
        _ => return Err(unexpected_reply()),
    };
    Ok(Answer::untimed(undamaged(reply)?))
}

/// Decodes the reply to an end by the key of the gate alone: whether that sufficed.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if the reply is not from one of our scripts.
pub(crate) fn ended_alone(value: Value) -> Result<bool, StoreError> {
    match words(value)?.as_str() {
        "1" => Ok(true),
        "?" => Ok(false),
        _ => Err(unexpected_reply()),
    }
}

fn undamaged(reply: Reply) -> Result<Reply, StoreError> {
    match reply {
        Reply::Refused(Refusal::Damaged) => Err(damaged()),
        reply => Ok(reply),
    }
}

/// The error for a value that is not ours.
pub(crate) fn damaged() -> StoreError {
    let what = "this key of a lock is damaged (delete it), or of a newer release (keep it)";
    StoreError::new(StoreErrorKind::Corrupt, what)
}

/// Decodes the reply to a look: the record is read, and the model says what it shows.
///
/// # Errors
///
/// Like [`taken`].
pub(crate) fn status(value: Value) -> Result<Answer, StoreError> {
    let (now, waiting, gate, record) = looked(value).ok_or_else(unexpected_reply)?;
    let mut record = record.ok_or_else(damaged)?;
    if let Some((gate, life_ms)) = gate {
        let until_ms = (now.lease_us / 1_000).saturating_add(life_ms);
        let state = text::read_gate(&gate).ok_or_else(damaged)?;
        record.gate = Some(Gate { state, until_ms });
    }
    let look = Action::Look { limit: u32::MAX };
    let mut reply = model::step(&mut record, &mut 0, now, Rules::USUAL, &look).reply;
    if let Reply::Status(status) = &mut reply {
        status.waiting = waiting;
    }
    Ok(Answer::new(now, reply))
}

/// The time, the number of waiters, what the gate says and how long it lives (ms), and the rest of
/// the record: `None` if that is damaged.
type Looked = (Now, u32, Option<(String, u64)>, Option<Record>);

/// Members of a sorted set, with their scores.
type Members = Vec<(String, u64)>;

/// The reply of `look.lua`.
type LookReply =
    (Value, Option<String>, i64, u32, Members, Members, Vec<u64>, Vec<String>, Option<String>);

fn looked(value: Value) -> Option<Looked> {
    let (asked, gate, life_ms, waiting, waiters, shares, tokens, closed, last) =
        LookReply::from_redis_value(value).ok()?;
    let now = time(asked)?;
    // A key without an end is no gate of ours, and is shown all the same.
    let gate = gate.map(|gate| (gate, u64::try_from(life_ms).unwrap_or(u64::MAX / 2)));
    let record = || {
        let mut record = Record { queue_until_ms: u64::MAX, ..Record::default() };
        record.closed_until_ms = u64::MAX;
        for (request, place) in waiters {
            let waiter = Waiter { request: text::read_request(&request)?, asked_ms: 0 };
            record.queue.insert(place, waiter);
        }
        for ((request, deadline_ms), token) in shares.into_iter().zip(tokens) {
            let request = text::read_request(&request)?;
            record.shares.insert(request.id, Share { request, token, deadline_ms });
        }
        record.last = last.and_then(|last| text::read_last(&last, u64::MAX));
        record.closed = closed.iter().map(|id| id.parse().ok()).collect::<Option<_>>()?;
        Some(record)
    };
    Some((now, waiting, gate, record()))
}

/// The time in a reply to TIME.
pub(crate) fn time(reply: Value) -> Option<Now> {
    let (seconds, micros) = <(u64, u64)>::from_redis_value(reply).ok()?;
    Some(now(seconds.checked_mul(1_000_000)?.checked_add(micros)?))
}

fn now(now_us: u64) -> Now {
    Now { lease_us: now_us, token_us: now_us }
}

fn words(value: Value) -> Result<String, StoreError> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).map_err(|_| unexpected_reply()),
        _ => Err(unexpected_reply()),
    }
}

/// The error for a reply that is not from one of our scripts.
pub(crate) fn unexpected_reply() -> StoreError {
    let what = "the server's reply is not one of leasehold's: does a proxy change it?";
    StoreError::new(StoreErrorKind::Corrupt, what).maybe_executed()
}

/// Decodes a payload of an inbox; `None` if it is not from one of our scripts.
pub fn message(payload: &[u8]) -> Option<Message> {
    let mut words = std::str::from_utf8(payload).ok()?.split(' ');
    let (kind, id) = (words.next()?, words.next()?.parse::<leasehold_core::HolderId>().ok()?);
    let mut number = || words.next()?.parse::<u64>().ok();
    let attempt = id.attempt;
    let message = match kind {
        "G" => {
            let token = FencingToken::from_micros(number()?);
            Message::Granted { attempt, token, now_us: number()? }
        }
        "R" => match number()? {
            0 => Message::Revoked { attempt, forced: false },
            1 => Message::Revoked { attempt, forced: true },
            _ => return None,
        },
        _ => return None,
    };
    words.next().is_none().then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn a_time_that_no_clock_shows_is_no_time() {
        let shown = |seconds, micros| time(Value::Array(vec![seconds, micros]));
        let now_us = shown(Value::Int(1), Value::Int(2)).map(|now| now.lease_us);
        assert_eq!(now_us, Some(1_000_002));
        assert_eq!(shown(Value::Int(i64::MAX), Value::Int(0)), None);
        let most = (u64::MAX / 1_000_000).to_string().into_bytes();
        assert_eq!(shown(Value::BulkString(most), Value::Int(999_999)), None);
    }

    #[test]
    fn a_foreign_reply_is_an_error_after_which_nothing_is_certain() {
        for reply in ["", "hello", "?", "G", "G x", "G 1 2", "Q 1 2 3", "B -1", "C 1", "2"] {
            for decode in [taken, kept, ended, status] {
                let error = decode(text(reply)).unwrap_err();
                assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{reply:?}");
                assert!(error.may_have_executed(), "{reply:?}");
            }
        }
        for reply in [Value::Nil, Value::Okay, Value::Int(1), Value::Array(Vec::new())] {
            assert!(taken(reply.clone()).is_err() && status(reply).is_err());
        }
    }

    #[test]
    fn one_damaged_record_refuses_its_own_renewal_and_none_of_the_others() {
        let damaged = Reply::Refused(Refusal::Damaged);
        let expected = vec![damaged, Reply::Revoked, Reply::Kept { contended: true }];
        assert_eq!(many_kept(text("xrw")).unwrap().reply, Reply::Many(expected));
        for error in [kept(text("x")), taken(text("X")), ended(text("x"))] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt);
            assert!(!error.may_have_executed());
        }
    }

    #[test]
    fn a_place_comes_with_the_time() {
        let answer = taken(text("Q 7 2 1000 5 1800000000000000")).unwrap();
        let place = Place::new(7, 2, Duration::from_secs(1)).with_other_capacity(Some(5));
        assert_eq!(answer.reply, Reply::Queued(place));
        assert_eq!(answer.now.unwrap().lease_us, 1_800_000_000_000_000);
    }

    #[test]
    fn only_a_payload_of_our_scripts_is_a_message() {
        let id = "0000000000000000000000000000000a-1";
        let of = |text: String| message(text.as_bytes());
        let granted = of(format!("G {id} 1800000000000000 1800000000123456"));
        let Some(Message::Granted { attempt: 1, now_us, .. }) = granted else { panic!() };
        assert_eq!(now_us, 1_800_000_000_123_456);
        let forced = of(format!("R {id} 1"));
        assert!(matches!(forced, Some(Message::Revoked { attempt: 1, forced: true })));
        for other in ["", "hello", "G", "R 1 1", "G x 1 1"] {
            assert_eq!(message(other.as_bytes()), None, "{other}");
        }
        for rest in ["2", "0 0", ""] {
            assert_eq!(of(format!("R {id} {rest}")), None, "{rest}");
        }
    }
}
