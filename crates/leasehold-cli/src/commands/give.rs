//! `leasehold give`: releases a lease of `take`.

use super::held_there::StoreOf;
use crate::args::Give;
use crate::detached::{Answer, Handle, Request, ask};
use crate::report::{Failure, LOST, Outcome};
use crate::runtime::block_on;

/// Asks the holder process to release the lease. If that process was killed, or is on another
/// machine, ends the lease at the store.
pub(crate) fn give(args: &Give) -> Outcome {
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    let store = StoreOf { handle: &handle, args: &args.store };
    block_on(async {
        match ask(handle.client, Request::Give).await {
            Ok(Some(Answer::Done)) => {
                args.store.verbosity.detail(format_args!("{}: given back", handle.shown()));
                Ok(0)
            }
            Ok(Some(Answer::Lost { why })) => Err(Failure::new(LOST, why)),
            Ok(None) => store.or_lost_here(store.end().await).map(|()| 0),
            // A holder process that hangs may still renew the lease. It learns of this release when
            // it finds the lease lost.
            Err(_) => store.end().await.map(|()| 0),
        }
    })?
}
