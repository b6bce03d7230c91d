//! The names of operations, for logs and metrics.

use super::{Action, Operation};

impl Operation {
    /// The name of the operation without its object, such as `acquire` or `renew`: one of a few
    /// words, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::List { .. } | Self::ListPage { .. } => "list",
            Self::On { action, .. } => action.as_str(),
            Self::Renew(_) => "renew",
        }
    }
}

impl Action {
    /// The name of the action, such as `acquire`: one of a few words, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Adopt(_) => "adopt",
            Self::Cancel { .. } => "cancel",
            Self::Commit { .. } => "commit",
            Self::Describe { .. } => "describe",
            Self::Inspect { .. } => "inspect",
            Self::Poll { .. } => "poll",
            Self::Reclaim(_) => "reclaim",
            Self::Release { .. } => "release",
            Self::Renew { .. } => "renew",
            Self::Revoke { .. } => "revoke",
        }
    }
}
