//! Names of stored things: stocks, items, orders, sequences of numbers.

use std::fmt;
use std::sync::Arc;

use leasehold::error::InvalidInput;

/// The longest id in bytes: 256, enough for two UUIDs and some words. Every order stores its id.
pub const MAX_ID_BYTES: usize = 256;

/// The name of a stock, an item, an order or a sequence of numbers: 1 to 256 bytes of UTF-8 without
/// control characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(Arc<str>);

impl Id {
    /// Checks an id. `what` is its kind in the error message, such as `order`.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] when it is empty, longer than 256 bytes, or has a control character.
    pub fn new(what: &'static str, id: impl AsRef<str>) -> Result<Self, InvalidInput> {
        let id = id.as_ref();
        let refuse = |why: String| Err(InvalidInput::new(what, why));
        if id.is_empty() {
            return refuse(format!("the name of the {what} is empty: give it at least one byte"));
        }
        if id.len() > MAX_ID_BYTES {
            let length = id.len();
            return refuse(format!(
                "the name of the {what} has {length} bytes: the limit is {MAX_ID_BYTES}"
            ));
        }
        if let Some((at, found)) = id.char_indices().find(|(_, c)| c.is_control()) {
            let found = found.escape_default();
            return refuse(format!(
                "the name of the {what} has the control character {found} at byte {at}: remove it"
            ));
        }
        Ok(Self(id.into()))
    }

    /// The id as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_id_is_refused_in_one_line_that_names_it() {
        for (wrong, words) in [("", "empty"), ("a\nb", "control"), (&"x".repeat(257), "257 bytes")]
        {
            let refusal = Id::new("order", wrong).unwrap_err().to_string();
            assert!(refusal.contains("order") && refusal.contains(words), "{refusal}");
            assert_eq!(refusal.lines().count(), 1);
        }
        assert_eq!(Id::new("order", "x".repeat(256)).unwrap().as_str().len(), 256);
    }
}
