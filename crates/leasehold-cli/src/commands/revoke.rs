//! `leasehold revoke`: takes a lease away from its holder.

use crate::args::Revoke;
use crate::connection::ask;
use crate::report::{Failure, NO, Outcome};

/// Revokes the lease with exactly this token.
pub(crate) fn revoke(args: &Revoke) -> Outcome {
    let choice = args.store.choose()?;
    let (name, token) = (&args.name, args.token);
    let was_held = ask(&choice, args.store.verbosity, async |client| match args.force {
        true => Ok(client.admin().revoke_now(name, token).await?),
        false => Ok(client.admin().revoke(name, token).await?),
    })?;
    if !was_held {
        choice.warn_if_local(args.store.verbosity);
        return Err(Failure::new(NO, format!("{name}: nobody holds it with token {token}")));
    }
    match args.force {
        true => args.store.verbosity.remark(format_args!(
            "{name}: the lease with token {token} has ended; its holder may still be at work"
        )),
        false => args.store.verbosity.detail(format_args!(
            "{name}: the holder with token {token} is asked to stop, and lets go"
        )),
    }
    Ok(0)
}
