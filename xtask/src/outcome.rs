//! What a task ends with.

/// Done, or one line that says what is wrong and where.
pub(crate) type Outcome<T = ()> = Result<T, String>;
