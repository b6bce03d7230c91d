//! Decodes the output of scripts: a reply as an [`Answer`], a message as a [`Message`].

use std::time::Duration;

use leasehold_core::{
    Answer, Cancelled, FencingToken, Grant, Holder, Message, Mode, Now, Place, Refusal, Reply,
    Status, StoreError, StoreErrorKind, Waiter,
};
use redis::{FromRedisValue, Value};

use super::codec::Reader;
use super::plain::value;
use super::redisson::owners;

/// Decodes the reply to a single action.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if the record is damaged (the script has left it as it is),
/// or if the reply is not from one of our scripts.
pub(crate) fn one(reply: Value) -> Result<Answer, StoreError> {
    let (now, more, mut packed) = head(&reply).ok_or_else(unexpected_reply)?;
    match (found(&mut packed, now.lease_us), packed.0.is_empty()) {
        (Some(Reply::Refused(Refusal::Damaged)), true) => {
            let what = "the key of this lock is damaged: look at it, and delete it to mend it";
            Err(StoreError::new(StoreErrorKind::Corrupt, what))
        }
        (Some(reply), true) => Ok(Answer::new(now, reply).with_more(more)),
        (Some(_), false) | (None, _) => Err(unexpected_reply()),
    }
}

/// Decodes the reply to the renewal of many leases. A damaged record makes only its own renewal
/// fail.
///
/// # Errors
///
/// [`Corrupt`](StoreErrorKind::Corrupt) if the reply is not from one of our scripts.
pub(crate) fn many(reply: Value) -> Result<Answer, StoreError> {
    let (now, more, mut packed) = head(&reply).ok_or_else(unexpected_reply)?;
    let mut replies = Vec::new();
    while !packed.0.is_empty() {
        replies.push(found(&mut packed, now.lease_us).ok_or_else(unexpected_reply)?);
    }
    Ok(Answer::new(now, Reply::Many(replies)).with_more(more))
}

/// The time in a reply to TIME.
pub(crate) fn time(reply: Value) -> Option<Now> {
    let (seconds, micros) = <(u64, u64)>::from_redis_value(reply).ok()?;
    let now_us = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some(Now { lease_us: now_us, token_us: now_us })
}

/// The error for a reply that is not from one of our scripts.
pub(crate) fn unexpected_reply() -> StoreError {
    let what = "the server's reply is not one of leasehold's: does a proxy change it?";
    StoreError::new(StoreErrorKind::Corrupt, what).maybe_executed()
}

/// The time at which the script ran, whether it left more to do, and the rest of the reply.
fn head(reply: &Value) -> Option<(Now, bool, Reader<'_>)> {
    let Value::BulkString(bytes) = reply else { return None };
    let mut packed = Reader(bytes);
    let (now_us, more) = (packed.number()?, packed.flag()?);
    Some((Now { lease_us: now_us, token_us: now_us }, more, packed))
}

fn found(packed: &mut Reader<'_>, now_us: u64) -> Option<Reply> {
    Some(match packed.byte()? {
        b'B' => Reply::Busy { retry_after: packed.span()? },
        b'C' => Reply::Cancelled(match packed.byte()? {
            b'L' => Cancelled::Released,
            b'M' => Cancelled::Removed,
            b'U' => Cancelled::Unknown,
            _ => return None,
        }),
        b'F' => Reply::Released,
        b'G' => Reply::Granted(
            Grant::new(packed.token()?, packed.number()?).with_contended(packed.flag()?),
        ),
        b'I' => Reply::Status(Box::new(status(packed, now_us)?)),
        b'J' => Reply::Status(Box::new(owners::status(packed, now_us)?)),
        b'L' => Reply::Late,
        b'N' => Reply::NotHeld { newest: newest(packed)? },
        b'O' => Reply::Gone,
        b'P' => Reply::Status(Box::new(value::status(packed, now_us)?)),
        b'Q' => Reply::Queued(
            Place::new(packed.number()?, packed.word()?, packed.span()?)
                .with_other_capacity(capacity(packed)?),
        ),
        b'R' => Reply::Refused(match packed.byte()? {
            b'B' => Refusal::Ballot,
            b'M' => Refusal::Mismatch { capacity: packed.word()? },
            b'Q' => Refusal::QueueFull,
            b'V' => Refusal::Version { found: packed.word()? },
            b'W' => Refusal::Weight,
            _ => return None,
        }),
        b'S' => Reply::Stale,
        b'V' => Reply::Revoked(packed.flag()?),
        b'X' => Reply::Refused(Refusal::Damaged),
        _ => return None,
    })
}

/// The last token of a name; zero means that there is none.
fn newest(packed: &mut Reader<'_>) -> Option<Option<FencingToken>> {
    let token_us = packed.number()?;
    Some((token_us > 0).then(|| FencingToken::from_micros(token_us)))
}

/// A capacity; zero means that there is none.
fn capacity(packed: &mut Reader<'_>) -> Option<Option<u32>> {
    let capacity = packed.word()?;
    Some((capacity > 0).then_some(capacity))
}

fn status(packed: &mut Reader<'_>, now_us: u64) -> Option<Status> {
    let capacity = packed.word()?;
    let last_token = newest(packed)?;
    let waiting = packed.word()?;
    let holders = (0..packed.word()?)
        .map(|_| {
            let (id, mode) = (packed.id()?, Mode::of(packed.word()?, capacity));
            let (state, token) = (packed.hold_state()?, packed.token()?);
            let held_for = Duration::from_micros(now_us.saturating_sub(packed.number()?));
            let ttl_left = Duration::from_micros(packed.number()?.saturating_sub(now_us));
            let holder = Holder::new(id, mode, token)
                .with_state(state)
                .with_held_for(held_for)
                .with_ttl_left(ttl_left);
            Some(holder.with_info(packed.counted()?.info()?).as_passed_on())
        })
        .collect::<Option<_>>()?;
    let waiters = (1..=packed.word()?)
        .map(|position| {
            let (id, mode) = (packed.id()?, Mode::of(packed.word()?, packed.word()?));
            let waited = Duration::from_micros(now_us.saturating_sub(packed.number()?));
            Some(Waiter::new(id, mode, packed.counted()?.info()?, waited, position))
        })
        .collect::<Option<_>>()?;
    let last = packed.counted()?;
    let last = match last.0 {
        [] => None,
        _ => Some(last.last_hold()?.at(now_us)),
    };
    let status = Status::default()
        .with_holders(holders)
        .with_waiters(waiters)
        .with_waiting(waiting)
        .with_last_token(last_token)
        .with_last_holder(last);
    Some(status)
}

/// Decodes a payload of an inbox; `None` if it is not from one of our scripts.
pub fn message(payload: &[u8]) -> Option<Message> {
    let mut packed = Reader(payload);
    let kind = packed.byte()?;
    let (attempt, nonce) = (packed.number()?, packed.nonce()?);
    let message = match kind {
        b'G' => Message::Granted {
            attempt,
            nonce,
            token: packed.token()?,
            now_us: packed.number()?,
            deadline_us: packed.number()?,
        },
        b'R' => Message::Revoked {
            attempt,
            nonce,
            token: FencingToken::from_number(packed.take().map(u64::from_be_bytes)?)?,
            forced: packed.flag()?,
        },
        _ => return None,
    };
    packed.0.is_empty().then_some(message)
}

/// Merges the answers of several servers, one request each, into one answer. A request that failed
/// gets a reply without an outcome.
///
/// Each answer has the time of a different server. Only the time left until a deadline matters. So
/// all deadlines are converted to the clock of the first server that has answered.
///
/// # Errors
///
/// The first refusal, or else the first error, if no server has answered.
pub(crate) fn merge(outcomes: Vec<Result<Answer, StoreError>>) -> Result<Answer, StoreError> {
    let answered = outcomes.iter().flatten().next();
    let failures = || outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let refusal = failures().find(|error| !error.kind().is_outage());
    if answered.is_none()
        && let Some(error) = refusal.or(failures().next())
    {
        return Err(error.clone().maybe_executed());
    }
    let now = answered.map_or(Now { lease_us: 0, token_us: 0 }, |answer| answer.now);
    let more = outcomes.iter().flatten().any(|answer| answer.more);
    let translated = |outcome: Result<Answer, StoreError>| match outcome {
        Ok(Answer { reply: Reply::Many(replies), now: own, .. }) => {
            replies.into_iter().map(|reply| translate(reply, own, now)).collect()
        }
        Ok(answer) => vec![translate(answer.reply, answer.now, now)],
        Err(_) => vec![Reply::Busy { retry_after: Duration::ZERO }],
    };
    let replies = Reply::Many(outcomes.into_iter().flat_map(translated).collect());
    Ok(Answer::new(now, replies).with_more(more))
}

/// Converts a reply of a server whose time was `from` to the clock of a server whose time was `to`.
fn translate(mut reply: Reply, from: Now, to: Now) -> Reply {
    if let Reply::Granted(grant) = &mut reply {
        grant.deadline_us = to.lease_us + grant.deadline_us.saturating_sub(from.lease_us);
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::super::codec::Writer;
    use super::*;

    fn replies(now_us: u64, replies: &[u8]) -> Value {
        Value::BulkString(Writer::default().number(now_us).flag(false).bytes(replies).0)
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
        for reply in [
            Value::Nil,
            Value::Okay,
            Value::BulkString(b"hello".to_vec()),
            replies(1, b""),
            replies(1, b"?"),
            replies(1, b"O?"),
            replies(1, b"OO"),
            replies(1, b"G12345678"),
            replies(1, b"R?"),
            replies(1, b"V\x02"),
        ] {
            let error = one(reply.clone()).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Corrupt, "{reply:?}");
            assert!(error.may_have_executed(), "{reply:?}");
        }
    }

    #[test]
    fn one_damaged_record_refuses_its_own_renewal_and_none_of_the_others() {
        let expected = vec![Reply::Refused(Refusal::Damaged), Reply::Revoked(true)];
        let found = many(replies(7, b"XV\x01")).unwrap();
        assert_eq!((found.now.lease_us, found.reply), (7, Reply::Many(expected)));
        let error = one(replies(7, b"X")).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Corrupt);
        assert!(!error.may_have_executed());
    }

    #[test]
    fn a_payload_of_a_wrong_length_is_no_message() {
        let numbers = Writer::default().number(1).number(1).number(1);
        let granted = Writer::default().byte(b'G').bytes(&numbers.0).number(1).number(1).0;
        assert!(matches!(message(&granted), Some(Message::Granted { attempt: 1, .. })));
        assert_eq!(message(&granted[..40]), None);
        assert_eq!(message(&[&granted[..], b"x"].concat()), None);
        let revoked = Writer::default().byte(b'R').bytes(&numbers.0).byte(1).0;
        assert!(matches!(message(&revoked), Some(Message::Revoked { forced: true, .. })));
        assert_eq!(message(&[&revoked[..25], &[2]].concat()), None);
        assert_eq!(message(b""), None);
        assert_eq!(message(b"hello"), None);
    }

    #[test]
    fn a_lease_has_as_much_left_after_a_merge_as_its_own_server_said() {
        let now = |us| Now { lease_us: us, token_us: us };
        let token = FencingToken::from_number(1 << 12).unwrap();
        let answer = |now_us, more, reply| Answer::new(now(now_us), reply).with_more(more);
        let granted = |deadline_us| Reply::Granted(Grant::new(token, deadline_us));
        let not_held = Reply::NotHeld { newest: None };
        let merged = merge(vec![
            Ok(answer(1_000, false, Reply::Many(vec![granted(1_300)]))),
            Ok(answer(9_000, true, Reply::Many(vec![granted(9_500), not_held.clone()]))),
            Ok(answer(10, false, Reply::Many(vec![granted(5)]))),
        ]);
        let replies = vec![granted(1_300), granted(1_500), not_held, granted(1_000)];
        assert_eq!(merged.unwrap(), answer(1_000, true, Reply::Many(replies)));
    }

    #[test]
    fn a_server_that_fails_costs_the_others_no_reply_and_only_if_all_fail_there_is_an_error() {
        let now = Now { lease_us: 7, token_us: 7 };
        let answer = Answer::new(now, Reply::Many(vec![Reply::Revoked(true)]));
        let gone = |why| Err(StoreError::new(StoreErrorKind::Unreachable, why));
        let none = Reply::Busy { retry_after: Duration::ZERO };
        let replies = vec![none.clone(), Reply::Revoked(true), none];
        let merged = merge(vec![gone("a"), Ok(answer), gone("b")]).unwrap();
        assert_eq!(merged, Answer::new(now, Reply::Many(replies)));
        let refused = || Err(StoreError::new(StoreErrorKind::Denied, "c"));
        let error = merge(vec![gone("a"), refused(), gone("b")]).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Denied);
        let error = merge(vec![gone("a"), gone("b")]).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.may_have_executed()), ("a", true));
        assert_eq!(merge(Vec::new()).unwrap().reply, Reply::Many(Vec::new()));
    }
}
