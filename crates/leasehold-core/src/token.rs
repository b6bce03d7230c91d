//! Fencing tokens.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::name::{InvalidInput, as_text};

/// The start of token time: 2020-01-01T00:00Z in microseconds since 1970. So 51 bits of
/// microseconds last until about 2091.
pub const TOKEN_EPOCH_US: u64 = 1_577_836_800_000_000;

/// The number of low bits of a token that belong to the process that holds the lease.
const LOCAL_BITS: u32 = 12;

/// The mask of the local bits.
const LOCAL_MASK: u64 = (1 << LOCAL_BITS) - 1;

/// The last possible token time.
const MAX_TOKEN_US: u64 = TOKEN_EPOCH_US + (i64::MAX as u64 >> LOCAL_BITS);

/// A number that grows with every grant of one name: never zero, never reused.
///
/// It fits a signed 64-bit column. Give it to the resource that the lock protects, and let the
/// resource refuse any number below the highest that it has seen. Then an overtaken holder can do
/// no harm, even if it has not noticed its loss.
///
/// In JSON it is a string, because JavaScript rounds numbers of this size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "String", into = "String"))]
pub struct FencingToken(NonZeroU64);

impl FencingToken {
    /// The token of a grant made at `token_us`, in microseconds since 1970 by the store's clock.
    ///
    /// A time before 2020 makes the first possible token, and a time after about 2091 the last one.
    pub const fn from_micros(token_us: u64) -> Self {
        let clamped = if token_us <= TOKEN_EPOCH_US {
            TOKEN_EPOCH_US + 1
        } else if token_us > MAX_TOKEN_US {
            MAX_TOKEN_US
        } else {
            token_us
        };
        match NonZeroU64::new((clamped - TOKEN_EPOCH_US) << LOCAL_BITS) {
            Some(number) => Self(number),
            None => Self(NonZeroU64::MIN), // unreachable: clamped is above the epoch
        }
    }

    /// The store's time of the grant, in microseconds since 1970.
    pub const fn micros(self) -> u64 {
        (self.0.get() >> LOCAL_BITS) + TOKEN_EPOCH_US
    }

    /// The token of the caller that gets this lease when its process passes it on for the
    /// `times`-th time. It is higher than the tokens of all earlier callers in that process, and
    /// lower than that of every later grant. `None` after 4,095 times, when the low bits are used
    /// up.
    pub const fn passed_on(self, times: u16) -> Option<Self> {
        let local = (self.0.get() & LOCAL_MASK) + times as u64;
        if local > LOCAL_MASK {
            return None;
        }
        Self::from_number((self.0.get() & !LOCAL_MASK) + local)
    }

    /// The number of times that the lease was passed on before the holder of this token got it.
    pub const fn passes(self) -> u16 {
        (self.0.get() & LOCAL_MASK) as u16
    }

    /// The token as a number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Makes a token from a number that was handed out before; zero and numbers above `i64::MAX`
    /// are no tokens.
    pub const fn from_number(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) if number.get() <= i64::MAX as u64 => Some(Self(number)),
            _ => None,
        }
    }
}

/// The token as a parameter of SQL, whose integers are signed. Every token fits.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.get() as Self
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        text.parse().ok().and_then(Self::from_number).ok_or_else(|| {
            let why = format!("{text:?} is not a fencing token: copy the whole number");
            InvalidInput::new("token", why)
        })
    }
}

as_text!(FencingToken);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ordered_as_their_times_are_and_fit_a_signed_column() {
        let first = FencingToken::from_micros(TOKEN_EPOCH_US + 1);
        let second = FencingToken::from_micros(TOKEN_EPOCH_US + 2);
        assert!(first < second);
        assert_eq!(second.micros(), TOKEN_EPOCH_US + 2);
        assert!(FencingToken::from_micros(u64::MAX).get() <= i64::MAX as u64);
        assert!(FencingToken::from_micros(0).get() > 0);
        assert_eq!(FencingToken::from_micros(TOKEN_EPOCH_US), first, "there is none before it");
    }

    #[test]
    fn tokens_inside_a_process_lie_between_its_grant_and_the_next_one() {
        let at = |us| FencingToken::from_micros(TOKEN_EPOCH_US + us);
        let (grant, next) = (at(1_000_000_007), at(1_000_000_008));
        assert_eq!(grant.passed_on(0), Some(grant));
        let passed: Vec<_> = (1..=4_095).map(|times| grant.passed_on(times).unwrap()).collect();
        assert!(passed.is_sorted_by(|one, other| one < other));
        assert!(grant < passed[0] && passed[4_094] < next);
        assert!(passed.iter().all(|token| token.micros() == grant.micros()));
        assert_eq!(passed[0].passed_on(1), Some(passed[1]));
        assert_eq!((grant.passes(), passed[4_094].passes()), (0, 4_095));
        assert_eq!((grant.passed_on(4_096), passed[4_094].passed_on(1)), (None, None));
        assert!(FencingToken::from_micros(u64::MAX).passed_on(4_095).is_some());
    }

    #[test]
    fn text_and_json_keep_every_digit() {
        let token = FencingToken::from_micros(1_800_000_000_123_457);
        assert_eq!(token.to_string().parse::<FencingToken>().unwrap(), token);
        assert_eq!(String::from(token), token.to_string());
        assert_eq!(i64::from(token).to_string(), token.to_string());
        #[cfg(feature = "serde")]
        {
            let json = serde_json::to_string(&token).unwrap();
            assert_eq!(json, format!("\"{token}\""));
            assert_eq!(serde_json::from_str::<FencingToken>(&json).unwrap(), token);
        }
        let wrong = ["", "0", "-1", "1.5", "9223372036854775808"].map(str::parse::<FencingToken>);
        assert!(wrong.iter().all(Result::is_err), "{wrong:?}");
    }
}
