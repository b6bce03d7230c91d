//! Who the client is to a server, and where its password comes from.

pub(crate) use crate::store::secret::Password;
pub(crate) use crate::store::secret::Secret;

/// A user and its password; without a user, that of `default`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// Hidden as well: it may be a password without the `:` before it.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Password>,
}

impl Login {
    /// Who the client is to a server.
    pub(crate) fn user(&self) -> &str {
        self.user.as_ref().map_or("default", Secret::reveal)
    }
}
