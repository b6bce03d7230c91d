//! The place that a store URL names.

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
