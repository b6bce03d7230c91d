//! How many past holders a store is asked to keep, as its URL says it.

use leasehold_core::InvalidInput;
use leasehold_core::model::MAX_HISTORY;

/// Reads the value of the option `history`.
pub(super) fn parse(value: &str) -> Result<u32, InvalidInput> {
    let number = value.parse().map_err(|_| refused(value))?;
    check(number).map(|()| number)
}

/// Refuses more past holders than a record has room for.
pub(super) fn check(history: u32) -> Result<(), InvalidInput> {
    if history <= MAX_HISTORY { Ok(()) } else { Err(refused(&history.to_string())) }
}

fn refused(given: &str) -> InvalidInput {
    let why =
        format!("`history` is {given:?}: give how many past holders to keep, 0 to {MAX_HISTORY}");
    InvalidInput::new("url", why)
}
