//! `leasehold take`: a lease that is held until it is given back.

use std::ffi::OsString;

use crate::args::Take;
use crate::report::{Failure, Outcome};
use crate::runtime::block_on;
use crate::taken;

/// Has a process of its own take the lease and hold it, and prints the handle.
pub(crate) fn take(args: &Take) -> Outcome {
    if let Some(limit) = args.lock.hold.max_hold() {
        let why = format!("{limit}: a lease that is taken ends with --for; give that instead");
        return Err(Failure::usage(why));
    }
    // As they were typed: the process reads them as this one did.
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    block_on(taken::take(arguments))?
}
