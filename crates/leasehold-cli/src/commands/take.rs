//! `leasehold take`: a lease that is held until it is given back.

use std::ffi::OsString;

use crate::args::Take;
use crate::connection::joined;
use crate::detached;
use crate::report::{Failure, Outcome};
use crate::runtime::block_on;
use crate::secrets::Secrets;

/// Takes and holds the lease in a separate process, and prints the handle.
pub(crate) fn take(args: &Take) -> Outcome {
    if let Some(limit) = &args.lock.hold.max_hold {
        let why = format!("{limit}: a lease that is taken ends with --for; give that instead");
        return Err(Failure::usage(why));
    }
    let mut choice = args.lock.store.choose()?;
    choice.secrets = Secrets::passed_on();
    // The arguments as they were typed: the holder process parses them as this one did.
    let arguments: Vec<OsString> = std::env::args_os().collect();
    block_on(detached::take(&joined(&args.names), arguments, choice))?
}
