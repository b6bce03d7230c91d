//! The value of a plain lock's key: a line of text, because operators read it, and programs in
//! other languages may read it, too.
//!
//! `leasehold-1 ID TOKEN STATE PID HOST`, and behind a tab the label, if there is one. TOKEN is the
//! time of the grant in microseconds, STATE is `held`, `cooldown` or `revoked`. Only the attempt
//! that ID names ends or renews the hold; no other attempt ever has that ID. `PID/TIMES/AFTER` says
//! that the lease was passed on TIMES times inside the process, the last time AFTER microseconds
//! after the grant. The layout `redisson` uses the same values; if its tokens are a counter, TOKEN
//! is that counter, and `/TIME` follows it.

use std::time::Duration;

use leasehold_core::time::micros;
use leasehold_core::{
    Answer, ForeignHolder, HoldState, Holder, HolderId, HolderInfo, MAX_INFO_BYTES, Mode, Now,
    PassedOn, Reply, Status, StoreError,
};
use redis::{FromRedisValue, Value};

use crate::store::redis::layout::{reply, shared};

/// The beginning of every value of ours.
pub(crate) const MARK: &str = "leasehold-1 ";

/// The largest size of a value of ours, in bytes: the mark, an id, a token, the longest state, a
/// process, facts, and separators.
pub(crate) const MAX_VALUE_BYTES: usize = MARK.len()
    + (32 + 1 + 20)
    + 1
    + 16
    + 1
    + "cooldown".len()
    + 1
    + MAX_PID
    + 1
    + MAX_INFO_BYTES
    + 1;

/// The largest size, in bytes, of `PID/TIMES/AFTER`.
const MAX_PID: usize = 10 + 1 + 4 + 1 + 20;

/// The number of characters that are shown of a foreign value: enough to find out whose it is.
const SHOWN_CHARACTERS: usize = 64;

/// The beginning of the values of an attempt, before its token.
pub(crate) fn begin(id: HolderId) -> Vec<u8> {
    format!("{MARK}{id} ").into_bytes()
}

/// The rest of the value of an attempt that holds, after its token.
pub(crate) fn end(info: &HolderInfo) -> Vec<u8> {
    let (host, mut pid) = (&info.host, info.pid.to_string());
    let PassedOn { times, after } = info.passed_on();
    if times > 0 {
        pid = format!("{pid}/{times}/{}", micros(after));
    }
    let label = info.label.as_deref().map(|label| format!("\t{label}")).unwrap_or_default();
    format!(" held {pid} {host}{label}").into_bytes()
}

/// Decodes the reply of `plain/look.lua`.
pub(crate) fn looked(reply: Value) -> Result<Answer, StoreError> {
    let found = <(Value, Vec<u8>, i64)>::from_redis_value(reply).ok();
    let (now, value, end_ms) = found
        .and_then(|(asked, value, end_ms)| Some((reply::time(asked)?, value, end_ms)))
        .ok_or_else(reply::unexpected_reply)?;
    Ok(Answer::new(now, Reply::Status(Box::new(status(&value, end_ms, now)))))
}

/// The status by a value, and the answer to PEXPIRETIME.
fn status(value: &[u8], end_ms: i64, now: Now) -> Status {
    if end_ms == -2 {
        return Status::default();
    }
    let ttl_left = shared::ttl_left(end_ms, now);
    if let Some(holder) = parse(value, now, ttl_left.unwrap_or_default()) {
        return Status::default().with_holders(vec![holder]);
    }
    let shown = String::from_utf8_lossy(value);
    let shown = shown.chars().take(SHOWN_CHARACTERS);
    let value: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
    Status::default().with_foreign(Some(ForeignHolder::new(value, ttl_left)))
}

/// The exclusive holder with this value; `None` if the value is not ours.
pub(crate) fn parse(value: &[u8], now: Now, ttl_left: Duration) -> Option<Holder> {
    let mut parts = std::str::from_utf8(value).ok()?.strip_prefix(MARK)?.splitn(5, ' ');
    let id = parts.next()?.parse().ok()?;
    let (token, since_us) = shared::token(parts.next()?)?;
    let state = match parts.next()? {
        "held" => HoldState::Claimed,
        "cooldown" => HoldState::Cooldown,
        "revoked" => HoldState::Revoked,
        _ => return None,
    };
    let (pid, passed_on) = process(parts.next()?)?;
    let rest = parts.next()?;
    let (host, label) = rest.split_once('\t').map_or((rest, None), |(a, b)| (a, Some(b)));
    let info =
        HolderInfo::new(host, pid).with_label(label.map(str::to_owned)).with_passed_on(passed_on);
    let held_for = Duration::from_micros(now.token_us.saturating_sub(since_us));
    let holder = Holder::new(id, Mode::Exclusive, Some(token))
        .with_state(state)
        .with_info(info)
        .with_ttl_left(ttl_left)
        .seen_at(now)
        .with_held_for(held_for.saturating_sub(passed_on.after));
    Some(holder)
}

/// A process, and how many times its lease was passed on inside it.
fn process(text: &str) -> Option<(u32, PassedOn)> {
    let Some((pid, passed_on)) = text.split_once('/') else {
        return Some((text.parse().ok()?, PassedOn::default()));
    };
    let (times, after) = passed_on.split_once('/')?;
    let after = Duration::from_micros(after.parse().ok()?);
    Some((pid.parse().ok()?, PassedOn { times: times.parse().ok()?, after }))
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, FencingToken};

    use super::*;

    const NOW_US: u64 = 1_800_000_000_000_000;

    fn inspected(value: &[u8], end_ms: i64) -> Status {
        status(value, end_ms, Now { lease_us: NOW_US, token_us: NOW_US })
    }

    fn value(id: HolderId, token_us: u64, info: &HolderInfo) -> Vec<u8> {
        [begin(id), token_us.to_string().into_bytes(), end(info)].concat()
    }

    #[test]
    fn a_holder_survives_the_text_of_its_value() {
        let id = HolderId { client: ClientId(u128::MAX), attempt: (1 << 53) - 1 };
        for label in [None, Some(String::new()), Some("nightly\timport ünï".to_owned())] {
            let info = HolderInfo::new("db 7", u32::MAX).with_label(label);
            let status = inspected(&value(id, NOW_US - 5, &info), (NOW_US / 1_000) as i64 + 7);
            let [holder] = &status.holders[..] else { panic!("{status:?}") };
            assert_eq!((holder.id, &holder.info), (id, &info));
            assert_eq!(holder.token, Some(FencingToken::from_micros(NOW_US - 5)));
            assert_eq!(holder.held_for, Duration::from_micros(5));
            assert_eq!(holder.ttl_left, Duration::from_millis(7));
            assert!(!status.is_free() && status.foreign.is_none());
        }
    }

    #[test]
    fn the_longest_value_of_ours_is_looked_at_wholly() {
        let id = HolderId { client: ClientId(u128::MAX), attempt: u64::MAX };
        let (host, label) = ("h".repeat(MAX_INFO_BYTES - 1), Some("l".to_owned()));
        let often = PassedOn { times: 4_095, after: Duration::from_micros(u64::MAX) };
        let info = HolderInfo::new(host, u32::MAX).with_label(label).with_passed_on(often);
        let longest = value(id, (1 << 53) - 1, &info).len() + "cooldown".len() - "held".len();
        assert_eq!(longest, MAX_VALUE_BYTES);
    }

    #[test]
    fn what_others_have_written_is_shown_as_theirs() {
        let id = HolderId { client: ClientId(1), attempt: 1 };
        let ours = value(id, NOW_US, &HolderInfo::default());
        let damaged = String::from_utf8(ours).unwrap().replace(" held ", " mine ");
        for theirs in [&b""[..], b"3f2c-uuid", b"\xff\x00", b"leasehold-1 x", damaged.as_bytes()] {
            let status = inspected(theirs, -1);
            assert!(status.holders.is_empty() && !status.is_free(), "{theirs:?}");
            let foreign = status.foreign.unwrap();
            assert_eq!(foreign.ttl_left, None, "a key without an end");
            assert!(!foreign.value.contains(char::is_control), "{theirs:?}");
        }
        let foreign =
            inspected("ü".repeat(1_000).as_bytes(), (NOW_US / 1_000) as i64 + 1).foreign.unwrap();
        assert_eq!(foreign.value, "ü".repeat(SHOWN_CHARACTERS));
        assert_eq!(foreign.ttl_left, Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_key_that_is_not_there_is_a_free_lock() {
        assert_eq!(inspected(b"", -2), Status::default());
        assert!(looked(Value::Array(Vec::new())).is_err());
    }
}
