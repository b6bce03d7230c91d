//! Numbers that are given out only once, in blocks.
//!
//! A plain counter issues a number twice when the store loses its last writes: a promoted replica
//! continues from its older state. So a block begins at max(last + 1, floor). The floor grows with
//! the store's clock, as fencing tokens do. It is rounded up, and the highest number that may be
//! given out is rounded down. A counter that runs ahead of its floor by more than [`LEAD_US`] has
//! to wait. A missing record may have been lost a moment ago. So a new record begins above the
//! highest number that may be given out.

/// How far the numbers may run ahead of the clock: 200 ms. A failover takes longer than that (a
/// Sentinel needs seconds), so a promoted replica that has lost writes begins above their numbers.
/// The lead also lets a burst pass at many times the allowed rate.
pub const LEAD_US: u64 = 200_000;

/// The longest time that a caller is told to wait: an hour. A longer wait means that something is
/// wrong, and doubles in the script would no longer be exact.
const LONGEST_RETRY_US: u64 = 3_600_000_000;

/// A day in microseconds.
pub const DAY_US: u64 = 86_400_000_000;

/// The state of a sequence between two steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The last number that was given out.
    pub last: u64,
    /// The day of `last`, counted since 1970, for a sequence that begins anew each day.
    pub day: Option<u64>,
}

/// How numbers grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Numbers begin anew each day of the time zone this many microseconds east of UTC.
    pub day_offset_us: Option<i64>,
    /// The microseconds per number by which the floor grows; 0 for a plain counter.
    pub step_us: u64,
}

/// The outcome of a step on a sequence of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumbersReply {
    /// A block of numbers, which now belong to the caller.
    Block {
        /// The first number of the block.
        first: u64,
        /// The day of the block.
        day: Option<u64>,
        /// How long that day still lasts; 0 without a day.
        day_left_us: u64,
    },
    /// The caller is too fast and must ask again later. Nothing was taken.
    Early {
        /// The time until the clock will have caught up.
        retry_after_us: u64,
    },
    /// The sequence begins anew each day but the request has no day, or the other way round.
    Mismatch,
    /// The numbers are used up.
    UsedUp,
}

/// Takes numbers.
pub fn step(sequence: &mut Option<Sequence>, now_us: u64, count: u64, plan: Plan) -> NumbersReply {
    if sequence.is_some_and(|found| found.day.is_some() != plan.day_offset_us.is_some()) {
        return NumbersReply::Mismatch;
    }
    let local_us = now_us.saturating_add_signed(plan.day_offset_us.unwrap_or(0));
    let today = plan.day_offset_us.map(|_| local_us / DAY_US);
    // A clock that was set back over midnight must not begin yesterday anew.
    let day = sequence.map_or(today, |found| found.day.max(today));
    let last = sequence.filter(|found| found.day == day).map_or(0, |found| found.last);
    let since_us = local_us.saturating_sub(day.unwrap_or(0).saturating_mul(DAY_US));
    let highest = (since_us + LEAD_US).checked_div(plan.step_us).unwrap_or(0);
    if sequence.is_none() && plan.step_us > 0 {
        *sequence = Some(Sequence { last: highest, day });
        return NumbersReply::Early { retry_after_us: count * plan.step_us };
    }
    let floor = if plan.step_us > 0 { since_us.div_ceil(plan.step_us) } else { 0 };
    let first = (last + 1).max(floor);
    let end = first + count - 1;
    if end > super::limits::MAX_NUMBER {
        return NumbersReply::UsedUp;
    }
    if plan.step_us > 0 && end > highest {
        let caught_up_us = end.saturating_mul(plan.step_us).saturating_sub(LEAD_US);
        let retry_after_us = caught_up_us.saturating_sub(since_us).clamp(1, LONGEST_RETRY_US);
        return NumbersReply::Early { retry_after_us };
    }
    *sequence = Some(Sequence { last: end, day });
    let left_us = |day: u64| ((day + 1) * DAY_US).saturating_sub(local_us);
    NumbersReply::Block { first, day, day_left_us: day.map_or(0, left_us) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON_US: u64 = 20_000 * DAY_US + DAY_US / 2;
    const FAST: Plan = Plan { day_offset_us: None, step_us: 10 };

    fn take(sequence: &mut Option<Sequence>, now_us: u64, count: u64, plan: Plan) -> (u64, u64) {
        let mut now_us = now_us;
        loop {
            match step(sequence, now_us, count, plan) {
                NumbersReply::Block { first, .. } => return (first, now_us),
                NumbersReply::Early { retry_after_us } => now_us += retry_after_us,
                NumbersReply::Mismatch | NumbersReply::UsedUp => panic!("{sequence:?}"),
            }
        }
    }

    #[test]
    fn a_plain_counter_counts_from_one() {
        let plan = Plan { day_offset_us: None, step_us: 0 };
        let mut sequence = None;
        assert_eq!(take(&mut sequence, NOON_US, 10, plan).0, 1);
        assert_eq!(take(&mut sequence, NOON_US, 1, plan).0, 11);
    }

    #[test]
    fn after_the_loss_of_everything_no_number_comes_again() {
        let (mut sequence, mut now_us, mut highest) = (None, NOON_US, 0);
        for round in 0..1000 {
            if round % 7 == 0 {
                sequence = None;
            }
            let (first, at_us) = take(&mut sequence, now_us, 100, FAST);
            assert!(first > highest, "round {round}: {first} after {highest}");
            (highest, now_us) = (first + 99, at_us);
        }
    }

    #[test]
    fn after_a_failover_that_takes_longer_than_the_lead_no_number_comes_again() {
        for per_second in [1, 3, 7, 100, 100_000] {
            let plan = Plan { day_offset_us: None, step_us: 1_000_000 / per_second };
            for late in 0..10 {
                let mut sequence = None;
                let (_, now_us) = take(&mut sequence, NOON_US, 1, plan);
                let replica = sequence;
                let now_us = now_us + late * plan.step_us / 10;
                let mut highest = 0;
                while let NumbersReply::Block { first, .. } = step(&mut sequence, now_us, 1, plan) {
                    highest = first;
                }
                sequence = replica;
                let (first, _) = take(&mut sequence, now_us + LEAD_US + 1, 1, plan);
                assert!(first > highest, "{per_second} a second: {first} after {highest}");
            }
        }
    }

    #[test]
    fn the_largest_block_is_given_out_at_any_time_if_nobody_took_numbers_for_a_while() {
        for per_second in [7, 100, 999, 100_000] {
            let plan = Plan { day_offset_us: None, step_us: 1_000_000 / per_second };
            let count = LEAD_US / plan.step_us;
            let mut sequence = None;
            let (_, mut now_us) = take(&mut sequence, NOON_US, 1, plan);
            for _ in 0..10 {
                now_us += LEAD_US + plan.step_us + 1;
                let (_, at_us) = take(&mut sequence, now_us, count, plan);
                assert_eq!(at_us, now_us, "{per_second} a second");
            }
        }
    }

    #[test]
    fn an_old_primary_that_goes_on_beside_the_new_one_gives_numbers_that_come_again() {
        let mut old = None;
        let (_, now_us) = take(&mut old, NOON_US, 1, FAST);
        let mut new = old;
        let later_us = now_us + 10 * LEAD_US;
        let of_old = take(&mut old, later_us, 100, FAST).0;
        let of_new = take(&mut new, later_us + FAST.step_us, 100, FAST).0;
        assert!((of_old..of_old + 100).contains(&of_new), "{of_new} after {of_old}");
    }

    #[test]
    fn a_new_day_begins_anew_and_a_clock_that_goes_back_does_not() {
        let plan = Plan { day_offset_us: Some(8 * 3_600_000_000), step_us: 0 };
        let mut sequence = None;
        take(&mut sequence, NOON_US, 5, plan);
        assert_eq!(take(&mut sequence, NOON_US + DAY_US, 1, plan).0, 1);
        assert_eq!(take(&mut sequence, NOON_US, 1, plan).0, 2, "still the later day");
        assert_eq!(sequence.unwrap().day, Some(20_001));
        assert_eq!(step(&mut sequence, NOON_US, 1, FAST), NumbersReply::Mismatch, "no days");
    }
}
