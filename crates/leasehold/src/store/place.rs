//! The place that a store URL names, and the environment that its passwords come from.

use leasehold_core::InvalidInput;

/// The values of variables of an environment.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The environment of this process.
pub(crate) fn of_process(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The place of a store.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The same text for all URLs of the store.
    pub id: String,
    /// A URL for other machines, if the store is on servers that have hosts. It has no password,
    /// and of the options only those that select the locks.
    pub remote: Option<String>,
}

/// The error for a URL or an option that is wrong.
pub(crate) fn invalid(why: impl Into<String>) -> InvalidInput {
    InvalidInput::new("url", why)
}
