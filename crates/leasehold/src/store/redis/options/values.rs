//! Values of options with a special type, and the errors for wrong values.

use std::fmt;
use std::sync::Arc;

use leasehold_core::InvalidInput;
use tokio_rustls::rustls::ClientConfig;

pub(crate) use crate::store::url_parts::invalid;

/// The layout of locks on the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutName {
    /// A hash with a queue, tokens and all features of leasehold.
    #[default]
    Native,
    /// The string of the Redis documentation, shared with programs in other languages.
    Plain,
    /// The locks of Redisson, shared with programs in Java.
    Redisson,
}

impl LayoutName {
    /// Whether programs in other languages share the locks, so that the server keeps nothing but
    /// the locks.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Self::Native => false,
            Self::Plain | Self::Redisson => true,
        }
    }
}

/// The number of replicas that must have a grant before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replicas {
    /// All replicas.
    All,
    /// At least this number, from 1 to 100.
    AtLeast(u32),
    /// No replica: the primary's reply is enough.
    #[default]
    None,
}

/// Whether connections use TLS, and the source of its configuration.
#[derive(Clone)]
pub(crate) enum Tls {
    /// The program has made it.
    Config(Arc<ClientConfig>),
    Off,
    /// The configuration is made from the options.
    On,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            // The configuration may have a private key.
            Self::Config(_) => "(a configuration of the program)",
            Self::Off => "Off",
            Self::On => "On",
        })
    }
}

pub(super) fn replicas(given: &str) -> InvalidInput {
    invalid(format!("`replicas` is {given:?}: give none, all or a number from 1"))
}
