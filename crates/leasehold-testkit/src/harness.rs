//! What tests say again and again, once.

use std::fmt;

/// The value of a result that a test relies on.
///
/// # Panics
///
/// With the error.
#[track_caller]
pub fn must<T, E: fmt::Debug>(result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error:?}"),
    }
}
