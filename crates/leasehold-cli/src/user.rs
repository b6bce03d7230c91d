//! The user of this process, and its machine.

use nix::unistd::geteuid;

/// A user, as this machine knows it.
#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) is_root: bool,
}

impl User {
    /// The effective user of this process.
    pub(crate) fn of_this_process() -> Self {
        let id = geteuid();
        let found = nix::unistd::User::from_uid(id).ok().flatten();
        let name = found.map_or_else(|| id.to_string(), |user| user.name);
        Self { name, is_root: id.is_root() }
    }
}

/// The name of this machine.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
