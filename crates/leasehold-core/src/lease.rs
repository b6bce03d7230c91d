//! A lease, how long its holder may rely on it, and why it may end.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::bugs::{self, Bug};
use crate::holder::{HolderId, Mode};
use crate::name::{InvalidInput, LockName};
use crate::setters::words;
use crate::text::show_duration;
use crate::time::Instant;
use crate::token::FencingToken;

/// The largest difference in rate between the clocks of the client and of the store: 1 %. NTP slews
/// by 0.05 %. chrony in its default configuration slews by up to 8.3 %, but only while it corrects
/// a large error.
pub const DEFAULT_DRIFT: f64 = 0.01;

/// Subtracted from every validity: 5 ms, for the time between reading the clock and acting.
pub const MARGIN: Duration = Duration::from_millis(5);

/// The bounds by which a holder stops relying on its lease earlier than the store ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The largest difference in rate between two clocks, as a ratio.
    pub drift: f64,
    /// A fixed span that is also subtracted from each validity.
    pub margin: Duration,
    /// The largest difference between the clocks of servers that take over from each other. A
    /// deadline is a time of the server that set it. On a server whose clock is ahead, the deadline
    /// passes earlier by that difference.
    pub offset: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { drift: DEFAULT_DRIFT, margin: MARGIN, offset: Duration::ZERO }
    }
}

impl Bounds {
    /// The end of the validity of a grant. The request was sent at `sent`; its reply granted the
    /// lease for `left`, counted from the store's time of the reply.
    ///
    /// The validity counts from *before* the request left. The store's time of the reply is later,
    /// so the store's deadline is after the result, whatever the network did.
    pub fn valid_until(&self, sent: Instant, left: Duration) -> Instant {
        let kept = (left.as_secs_f64() * (1.0 - self.drift) * 1e9).round() as u64;
        (sent + Duration::from_nanos(kept)).saturating_sub(self.margin + self.offset)
    }

    /// Refuses a ttl that leaves its holder too little validity. At least a third of the ttl must
    /// be left, for renewals, and no less than `asked`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] says how much is left of the ttl.
    pub fn check(&self, ttl: Duration, asked: Duration) -> Result<(), InvalidInput> {
        let left = self.valid_until(Instant::default(), ttl).since_origin();
        let least = asked.max(ttl / 3);
        if left >= least {
            return Ok(());
        }
        let [ttl, left, least, offset] = [ttl, left, least, self.offset].map(show_duration);
        let why = format!(
            "a ttl of {ttl} leaves a holder {left} to rely on, and at least {least} is needed: \
             give a longer one ({offset} are kept for clocks of servers that differ)"
        );
        Err(InvalidInput::new("ttl", why))
    }

    /// The time until which the client may rely on a hand-off that it has *not yet* confirmed;
    /// `None` if it must confirm the hand-off first.
    ///
    /// `granted_us` and `deadline_us` are store times from the message; `newest` is the newest
    /// reply that this client has. The grant must be later than that reply, by no more than the
    /// time that has passed here since. Otherwise the store's clock was set in between, or the
    /// message is old.
    pub fn valid_by_message(
        &self,
        newest: Sample,
        now: Instant,
        granted_us: u64,
        deadline_us: u64,
    ) -> Option<Instant> {
        if bugs::is_on(Bug::MessageFromArrival) {
            let window = Duration::from_micros(deadline_us.saturating_sub(granted_us));
            return Some(self.valid_until(now, window));
        }
        let since_reply = Duration::from_micros(granted_us.checked_sub(newest.server_us)?);
        if since_reply > now.saturating_since(newest.sent).mul_f64(1.0 + self.drift) {
            return None;
        }
        let left = Duration::from_micros(deadline_us.checked_sub(newest.server_us)?);
        Some(self.valid_until(newest.sent, left)).filter(|until| *until > now)
    }
}

/// A reading of the store's clock from a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the request was sent, by the client's clock.
    pub sent: Instant,
    /// The store's lease clock when the request was executed.
    pub server_us: u64,
}

/// A lease that was handed out of its guard, to travel to another process as text or JSON.
///
/// It says what is held, but not until when. Copies of it can arrive twice, so the store lets only
/// the first caller adopt it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[non_exhaustive]
pub struct Lease {
    /// The name of the lock.
    pub name: LockName,
    /// The id of the attempt that holds the name.
    pub holder: HolderId,
    /// The mode in which the name is held.
    pub mode: Mode,
    /// The token of the grant.
    pub token: FencingToken,
    /// The ttl of its renewals.
    #[cfg_attr(feature = "serde", serde(with = "crate::text::span"))]
    pub ttl: Duration,
}

impl Lease {
    /// The lease that `holder` has on `name`.
    pub fn new(
        name: LockName,
        holder: HolderId,
        mode: Mode,
        token: FencingToken,
        ttl: Duration,
    ) -> Self {
        Self { name, holder, mode, token, ttl }
    }
}

/// The first word of a lease's text, so that a wrong paste is recognised.
const LEASE_TEXT: &str = "leasehold-1";

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (weight, capacity) = (self.mode.weight(), self.mode.capacity());
        let (holder, token, ttl) = (self.holder, self.token, crate::time::micros(self.ttl));
        write!(f, "{LEASE_TEXT}:{holder}:{weight}/{capacity}:{token}:{ttl}:{}", self.name)
    }
}

impl FromStr for Lease {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        let parse = || {
            let mut parts = text.splitn(6, ':');
            if parts.next()? != LEASE_TEXT {
                return None;
            }
            let holder = parts.next()?.parse().ok()?;
            let (weight, capacity) = parts.next()?.split_once('/')?;
            let mode = Mode::of(weight.parse().ok()?, capacity.parse().ok()?);
            let token = parts.next()?.parse().ok()?;
            let ttl = Duration::from_micros(parts.next()?.parse().ok()?);
            let name = LockName::new(parts.next()?).ok()?;
            Some(Self { name, holder, mode, token, ttl })
        };
        parse().ok_or_else(|| InvalidInput::new("lease", "the text is not a lease: copy all of it"))
    }
}

/// The reason for which a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The client of the lease was closed.
    Closed,
    /// It was not renewed in time.
    Expired,
    /// It was acquired before a fork, and belongs to the parent: this process only has a copy of
    /// its guard.
    Forked,
    /// It reached its `max_hold`.
    HeldTooLong,
    /// An operator revoked it.
    Revoked,
    /// The store does not have it: its time was over there, or the store has forgotten it (flushed,
    /// evicted, restarted empty, failed over), or somebody has deleted or adopted it.
    Vanished,
}

impl LossReason {
    words! {
        Self::Closed => "closed",
        Self::Expired => "expired",
        Self::Forked => "forked",
        Self::HeldTooLong => "held_too_long",
        Self::Revoked => "revoked",
        Self::Vanished => "vanished",
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Closed => "the client was closed",
            Self::Expired => "the lease was not renewed in time",
            Self::Forked => {
                "it was acquired before a fork and is the parent's: acquire anew in this process"
            }
            Self::HeldTooLong => "the lease was held for longer than max_hold allows",
            Self::Revoked => "an operator revoked the lease",
            Self::Vanished => {
                "the store does not have the lease: it had ended there, or the store has forgotten \
                 it (flushed, evicted, restarted empty or failed over)"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::holder::ClientId;

    const BOUNDS: Bounds = Bounds { drift: 0.01, margin: MARGIN, offset: Duration::ZERO };

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn validity_ends_before_the_store_can_free_the_lock() {
        let until = BOUNDS.valid_until(at(1000), Duration::from_secs(10));
        assert_eq!(until, at(1000 + 9900 - 5));
    }

    #[test]
    fn a_ttl_of_which_too_little_can_be_relied_on_is_refused() {
        let (ms, offset) = (Duration::from_millis, Duration::from_millis(500));
        let apart = Bounds { offset, ..BOUNDS };
        let why = |ttl, asked| apart.check(ms(ttl), ms(asked)).map_err(|why| why.to_string());
        assert_eq!(why(800, 0), Ok(()), "it is renewed in time");
        assert!(why(700, 0).unwrap_err().contains("700ms"));
        assert_eq!(why(1_100, 550), Ok(()));
        assert!(why(800, 400).unwrap_err().contains("400ms"));
        assert_eq!(BOUNDS.check(ms(100), ms(50)), Ok(()), "the shortest there is");
    }

    proptest! {
        /// The deadline is a time of one server. Another server with a clock that is ahead takes
        /// over.
        #[test]
        fn validity_ends_before_any_server_within_the_offset_can_free_the_lock(
            ttl_ms in 100_u64..100_000, passed_ms in 0_u64..1_000, ahead_ms in 0_u64..3_000,
            offset_ms in 0_u64..3_000,
        ) {
            let ms = Duration::from_millis;
            let bounds = Bounds { drift: 0.0, margin: Duration::ZERO, offset: ms(offset_ms) };
            let until = bounds.valid_until(at(5_000), ms(ttl_ms));
            // The request is executed some time after it was sent, and the lock is free when the
            // other clock shows the deadline.
            let freed = at(5_000 + passed_ms + ttl_ms.saturating_sub(ahead_ms));
            prop_assert!(ahead_ms > offset_ms || until <= freed);
            prop_assert!(ahead_ms <= offset_ms + passed_ms || ttl_ms < ahead_ms || until > freed);
        }
    }

    #[test]
    fn a_hand_off_is_trusted_only_as_far_as_the_newest_reply_bears_it_out() {
        let newest = Sample { sent: at(1000), server_us: 500_000_000 };
        let by =
            |now, granted, deadline| BOUNDS.valid_by_message(newest, at(now), granted, deadline);
        assert_eq!(by(1400, 500_300_000, 502_300_000), Some(at(1000 + 2277 - 5)));
        assert_eq!(by(1400, 500_404_000, 502_300_000), Some(at(3272)), "as much as drift explains");
        assert_eq!(by(1400, 500_404_001, 502_300_000), None);
        assert_eq!(by(3272, 500_300_000, 502_300_000), None, "nothing is left of it");
        assert_eq!(by(1400, 499_999_999, 502_300_000), None, "granted before the newest reply");
        assert_eq!(by(1400, 500_500_000, 502_500_000), None, "more time passed there than here");
        assert_eq!(by(3400, 500_300_000, 502_300_000), None, "it came too late");
    }

    #[test]
    fn each_reason_for_a_loss_has_its_own_word_and_sentence() {
        use LossReason::{Closed, Expired, Forked, HeldTooLong, Revoked, Vanished};
        let said = [
            (Closed, "closed", "the client was closed"),
            (Expired, "expired", "the lease was not renewed in time"),
            (Forked, "forked", "acquire anew in this process"),
            (HeldTooLong, "held_too_long", "max_hold"),
            (Revoked, "revoked", "an operator"),
            (Vanished, "vanished", "does not have the lease"),
        ];
        assert_eq!(said.map(|(_, word, _)| word), LossReason::WORDS);
        for (reason, word, part) in said {
            assert_eq!(reason.as_str(), word);
            assert!(reason.to_string().contains(part), "{reason}");
        }
    }

    #[test]
    fn a_lease_survives_its_text() {
        let lease = Lease {
            name: LockName::new("a:b:{c}").unwrap(),
            holder: HolderId { client: ClientId(9), attempt: 3 },
            mode: Mode::Permits { count: 2, capacity: 5 },
            token: FencingToken::from_micros(1_800_000_000_000_000),
            ttl: Duration::from_secs(30),
        };
        assert_eq!(lease.to_string().parse::<Lease>().unwrap(), lease);
        assert!("leasehold-2:x".parse::<Lease>().is_err());
        #[cfg(feature = "serde")]
        {
            let json = serde_json::to_string(&lease).unwrap();
            assert!(json.contains(r#""ttl":"30s""#), "{json}");
            assert_eq!(serde_json::from_str::<Lease>(&json).unwrap(), lease);
        }
    }
}
