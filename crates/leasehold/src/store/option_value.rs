//! Values of options in the URLs of servers, for the usual types.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::InvalidInput;

use super::secret::Secret;
use super::span;
use super::url_parts::invalid;

/// The error for an option that is not in a table of names, meanings and defaults.
pub(super) fn unknown(name: &str, table: &[[&str; 3]]) -> InvalidInput {
    let names: Vec<_> = table.iter().map(|[name, ..]| *name).collect();
    let (last, others) = names.split_last().unwrap_or((&"", &[]));
    invalid(format!(
        "the store URL has the unknown option {name:?}: there are {} and {last}",
        others.join(", ")
    ))
}

/// A value that a store URL can have.
pub(super) trait Value: Sized {
    /// Reads the value. An error names the option.
    fn read(name: &str, text: String) -> Result<Self, InvalidInput>;
}

impl<T: Value> Value for Option<T> {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        T::read(name, text).map(Some)
    }
}

macro_rules! texts {
    ($($text:ty),+) => {$(
        impl Value for $text {
            fn read(_name: &str, text: String) -> Result<Self, InvalidInput> {
                Ok(text.into())
            }
        }
    )+};
}

texts!(PathBuf, Secret, String);

impl Value for Duration {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        span::read(name, &text)
    }
}

impl Value for bool {
    fn read(name: &str, text: String) -> Result<Self, InvalidInput> {
        match text.as_str() {
            "on" => Ok(true),
            "off" => Ok(false),
            _ => Err(invalid(format!("`{name}` in the store URL is `on` or `off`"))),
        }
    }
}
