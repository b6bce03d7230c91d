//! What a part of the program ends with.

/// Done, or why not.
pub(crate) type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
