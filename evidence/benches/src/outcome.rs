//! The result of a part of the program.

/// A value, or an error.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
