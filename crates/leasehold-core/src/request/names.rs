//! The names of operations, for logs and metrics.

use super::{Action, Operation};

impl Operation {
    /// The name of the operation without its object, such as `take` or `keep`: one of a few words,
    /// for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Keep(_) => "keep",
            Self::List { .. } => "list",
            Self::On { action, .. } => action.as_str(),
        }
    }
}

impl Action {
    /// The name of the action, such as `take`: one of a few words, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::End(_) => "end",
            Self::Keep(_) => "keep",
            Self::Look { .. } => "look",
            Self::Revoke { .. } => "revoke",
            Self::Take(_) => "take",
        }
    }
}
