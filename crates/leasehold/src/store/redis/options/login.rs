//! The login of the client at a server, and the source of its password.

pub(crate) use crate::store::secret::Password;
pub(crate) use crate::store::secret::Secret;

/// A user and its password; without a user, the password of `default`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Login {
    /// The user is hidden as well: it may be a password whose `:` was forgotten.
    pub(crate) user: Option<Secret>,
    pub(crate) password: Option<Password>,
}

impl Login {
    /// The name of the user at a server.
    pub(crate) fn user(&self) -> &str {
        self.user.as_ref().map_or("default", Secret::reveal)
    }
}
