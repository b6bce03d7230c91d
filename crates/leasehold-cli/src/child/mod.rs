//! A command under a lease: looked up, started, supervised and ended.

pub(crate) mod guardian;
pub(crate) mod leased_command;
pub(crate) mod program;
