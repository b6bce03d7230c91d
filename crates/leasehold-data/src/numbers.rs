//! Order numbers.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::error::{InvalidInput, StoreError, StoreErrorKind};
use leasehold::process::MadeIn;
use leasehold::time::{Clock, Instant, SystemClock};
use leasehold::{Error, Result};

use crate::model::numbers::{LEAD_US, NumbersReply, Plan};
use crate::model::{Action, Reply};
use crate::part::{Part, unexpected};

/// The default size of a block: 100. A crash leaves a gap of a hundred at most, and a hundred
/// numbers share a round trip.
const DEFAULT_BLOCK: u64 = 100;

/// How fast numbers may be given out by default: 100 000 a second on average. Numbers are then 15
/// digits long, or 10 digits if they begin anew each day.
const DEFAULT_PER_SECOND: u64 = 100_000;

/// The highest rate: one number per microsecond of the store's clock.
const MAX_PER_SECOND: u64 = 1_000_000;

/// The longest plausible wait for the store's clock: 10 s. One number takes up to a second at the
/// slowest rate, and somebody may have corrected the clock.
const LONGEST_WAIT_US: u64 = 10_000_000;

/// The largest width to which a number is padded: the digits of 2⁵³.
const MAX_WIDTH: usize = 16;

/// Time zones lie within 14 hours of UTC, in minutes.
const MAX_MINUTES_EAST: i32 = 14 * 60;

/// Numbers that are given out only once, across machines and restarts.
///
/// By default a number costs no round trip: the store gives out a block of numbers in one round
/// trip, which the process hands out locally. Clones share their block.
///
/// **Gaps mean nothing.** The rest of a block is dropped when its process ends, or when the day of
/// a [`dated`](Numbers::dated) sequence ends. A lost reply loses a block. While nobody takes
/// numbers, they jump ahead with the clock. Do not count orders by these numbers. If the law
/// requires numbers without gaps, generate them in the database transaction that writes the
/// invoice.
///
/// **Order.** Numbers of one block grow in the order in which this process asks; numbers of two
/// processes interleave. [`strictly_increasing`](Numbers::strictly_increasing) numbers grow in the
/// order in which the store gives them out, at one round trip each.
///
/// **Never twice, also after a failover that lost the last writes**: a block begins at the larger
/// of "last + 1" and a floor that grows with the store's clock. Numbers never run ahead of that
/// floor by more than 200 ms. A replica that takes over more than 200 ms after the last write that
/// it missed begins above all numbers that were given out. This assumes that the new primary's
/// clock is behind the old primary's by less than the rest of that time, without the first 200 ms.
/// A store that has lost everything needs no such delay: it begins above all numbers that were
/// given out, if its clock was not set back. An old primary that still runs at the same time as the
/// new one gives out the same numbers;
/// `min-replicas-to-write 1` on the servers prevents that. The price is long numbers with jumps,
/// and a rate limit ([`per_second`](Numbers::per_second)). [`short`](Numbers::short) numbers count
/// from one, and lack that promise.
///
/// # Cancel safety
///
/// Dropping the future of [`next`](Numbers::next) may leave a gap, but never causes a duplicate.
#[derive(Clone, Debug)]
#[must_use = "`Numbers` do nothing until `next`"]
pub struct Numbers {
    part: Part,
    block: Option<u64>,
    per_second: Option<u64>,
    minutes_east: Option<i32>,
    width: usize,
    stock: Arc<Blocks>,
}

/// The rest of the block, and the right to fetch the next block.
#[derive(Debug)]
struct Blocks {
    /// A forked child has a copy of its parent's block and locks, and uses neither.
    made_in: MadeIn,
    block: Mutex<Option<Block>>,
    fetching: tokio::sync::Mutex<()>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            made_in: MadeIn::this(),
            block: Mutex::default(),
            fetching: tokio::sync::Mutex::default(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    next: u64,
    end: u64,
    day: Option<u64>,
    /// The end of the block's day.
    until: Instant,
}

impl Numbers {
    pub(crate) fn new(part: Part) -> Self {
        Self {
            part,
            block: None,
            per_second: Some(DEFAULT_PER_SECOND),
            minutes_east: None,
            width: 0,
            stock: Arc::default(),
        }
    }

    /// How many numbers the store gives out together: 100 by default. The range is 1 to the number
    /// that the clock allows in 200 ms, which is 20 000 at the default rate.
    pub fn block(mut self, count: u64) -> Self {
        self.block = Some(count);
        self.anew()
    }

    /// Takes each number from the store separately, so that the numbers grow in the order in which
    /// the store gives them out: one round trip each.
    pub fn strictly_increasing(self) -> Self {
        self.block(1)
    }

    /// Begins anew each day, and shows the date in front of the number: `20261120-0000000042`. Days
    /// are those of the time zone `minutes_east` minutes east of UTC: 0 for UTC, 480 for China,
    /// −300 for New York.
    ///
    /// Give one number for the life of a sequence, also in summer. With another one, the sequence
    /// waits until the clock has caught up with its last day.
    ///
    /// The day is the one on which the number was taken from the store.
    pub fn dated(mut self, minutes_east: i32) -> Self {
        self.minutes_east = Some(minutes_east);
        self.anew()
    }

    /// How many numbers may be given out per second on average: 1 to 1 000 000, by default 100 000.
    /// A caller that asks faster waits. A lower rate makes shorter numbers: at 100 a second,
    /// numbers that begin anew each day have seven digits. Below 5 a second, a single caller also
    /// waits, for less than the time of one number.
    ///
    /// Never lower the rate of a sequence that is in use: the floor would fall below numbers that
    /// were given out.
    pub fn per_second(mut self, count: u64) -> Self {
        self.per_second = Some(count);
        self.anew()
    }

    /// Counts from one without a floor: short numbers at any speed. **A store that loses its last
    /// writes repeats numbers.** Use it with the file store, or a Redis with `appendfsync always`
    /// and no failover.
    pub fn short(mut self) -> Self {
        self.per_second = None;
        self.anew()
    }

    /// Shows numbers with at least `digits` digits: 0 to 16.
    pub fn width(mut self, digits: usize) -> Self {
        self.width = digits;
        self
    }

    /// Drops the block, because a block belongs to the options with which it was taken.
    fn anew(mut self) -> Self {
        self.stock = Arc::default();
        self
    }

    /// The next number.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] for options out of range; [`Error::Store`]: calling again is always safe;
    /// [`Error::Forked`] in a forked child, because the rest of the block belongs to its parent.
    ///
    /// # Cost
    ///
    /// One round trip per block, shared by all callers that wait for it.
    pub async fn next(&self) -> Result<Number> {
        if self.stock.made_in.is_another() {
            return Err(Error::Forked);
        }
        loop {
            if let Some(number) = self.take_local() {
                return Ok(number);
            }
            let _fetching = self.stock.fetching.lock().await;
            if let Some(number) = self.take_local() {
                return Ok(number); // another caller has fetched the block meanwhile
            }
            let block = self.fetch().await?;
            *self.stock.block.lock().unwrap_or_else(PoisonError::into_inner) = Some(block);
        }
    }

    fn take_local(&self) -> Option<Number> {
        let mut block = self.stock.block.lock().unwrap_or_else(PoisonError::into_inner);
        let found = block.as_mut().filter(|block| block.next < block.end)?;
        if found.day.is_some() && SystemClock::new().now() >= found.until {
            return None;
        }
        found.next += 1;
        Some(Number { value: found.next - 1, day: found.day, width: self.width })
    }

    async fn fetch(&self) -> Result<Block> {
        let (count, plan) = self.check()?;
        loop {
            let (sent, asked) = (SystemClock::new().now(), tokio::time::Instant::now());
            let answer = self.part.apply(Action::Numbers { count, plan }).await?;
            let Reply::Numbers(reply) = answer.reply else {
                return Err(unexpected(&answer.reply));
            };
            match reply {
                NumbersReply::Block { first, day, day_left_us } => {
                    let until = sent + Duration::from_micros(day_left_us);
                    return Ok(Block { next: first, end: first + count, day, until });
                }
                NumbersReply::Early { retry_after_us } if retry_after_us > LONGEST_WAIT_US => {
                    return Err(self.part.mismatch(
                        "these numbers are far ahead of the store's clock: was it set back, the \
                         speed lowered, or `dated` changed? wait for it, or begin another sequence",
                    ));
                }
                NumbersReply::Early { retry_after_us } => {
                    let took_us = u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX);
                    let pause_us = pause_us(retry_after_us, took_us, plan.step_us);
                    tokio::time::sleep(Duration::from_micros(pause_us)).await;
                }
                NumbersReply::Mismatch => {
                    return Err(self.part.mismatch(
                        "this sequence is in use with another choice of dates: `dated` everywhere, \
                         or nowhere",
                    ));
                }
                NumbersReply::UsedUp => {
                    let why = "the numbers are used up, 2^53 of them: begin another sequence";
                    return Err(StoreError::new(StoreErrorKind::Full, why).into());
                }
            }
        }
    }

    /// The size of a block, and how numbers grow.
    fn check(&self) -> std::result::Result<(u64, Plan), InvalidInput> {
        let refuse = |what, why| Err(InvalidInput::new(what, why));
        let step_us = match self.per_second {
            None => 0,
            Some(speed) if (1..=MAX_PER_SECOND).contains(&speed) => MAX_PER_SECOND / speed,
            Some(speed) => {
                let why = format!("{speed} numbers per second: give 1 to {MAX_PER_SECOND}");
                return refuse("per_second", why);
            }
        };
        let most = LEAD_US.checked_div(step_us).map_or(MAX_PER_SECOND, |most| most.max(1));
        let count = self.block.unwrap_or(DEFAULT_BLOCK.min(most));
        if !(1..=most).contains(&count) {
            let why = format!("a block of {count}: give 1 to {most} at this speed");
            return refuse("block", why);
        }
        if self.width > MAX_WIDTH {
            let why = format!("a width of {} digits: give 0 to {MAX_WIDTH}", self.width);
            return refuse("width", why);
        }
        let minutes = self.minutes_east.unwrap_or(0);
        if minutes.abs() > MAX_MINUTES_EAST {
            let why = format!("a time zone {minutes} minutes east of UTC: give -840 to 840");
            return refuse("dated", why);
        }
        let day_offset_us = self.minutes_east.map(|minutes| i64::from(minutes) * 60_000_000);
        Ok((count, Plan { day_offset_us, step_us }))
    }
}

/// How long a caller that was early waits before it asks again, if its round trip took `took_us`.
///
/// Below 5 numbers a second, the store gives a number out only in the [`LEAD_US`] before the floor
/// reaches it. The wait ends so early that a request that is as long under way arrives in the
/// middle of that time; if it is too late for that, in the middle of the time of a later number.
fn pause_us(retry_after_us: u64, took_us: u64, step_us: u64) -> u64 {
    if step_us <= LEAD_US {
        return retry_after_us;
    }
    let middle_us = retry_after_us + LEAD_US / 2;
    match middle_us.checked_sub(took_us) {
        Some(pause_us) => pause_us,
        None => step_us - (took_us - middle_us) % step_us,
    }
}

/// One number. Its `Display` shows the day, if it has one, and pads the number with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    day: Option<u64>,
    value: u64,
    width: usize,
}

impl Number {
    /// The number without its day.
    pub fn value(self) -> u64 {
        self.value
    }

    /// Year, month and day of a dated number.
    pub fn date(self) -> Option<(u64, u64, u64)> {
        self.day.map(civil)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((year, month, day)) = self.date() {
            write!(f, "{year:04}{month:02}{day:02}-")?;
        }
        write!(f, "{:0width$}", self.value, width = self.width)
    }
}

/// The date of a day since 1970, in the Gregorian calendar (H. Hinnant, "chrono-compatible
/// low-level date algorithms": years begin in March, so that the leap day comes last).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_the_dates_of_the_calendar() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_777), (2026, 11, 20));
    }

    #[test]
    fn a_number_shows_its_day_and_its_zeros() {
        let number = Number { day: Some(20_777), value: 42, width: 8 };
        assert_eq!(number.to_string(), "20261120-00000042");
        assert_eq!(Number { day: None, value: 42, width: 0 }.to_string(), "42");
    }
}
