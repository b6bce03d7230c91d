//! `leasehold renew`: changes the end of a lease of `take`.

use super::held_there::StoreOf;
use crate::args::Renew;
use crate::detached::{Answer, Handle, Request, ask};
use crate::report::{Failure, LOST, Outcome, STORE};
use crate::runtime::block_on;

/// Tells the holder process how long it must hold the lease from now on.
pub(crate) fn renew(args: &Renew) -> Outcome {
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    let names = handle.shown();
    let store = StoreOf { handle: &handle, args: &args.store };
    block_on(async {
        match ask(handle.client, Request::Renew { for_span: args.for_span }).await {
            Ok(Some(Answer::Done)) => {
                args.store.verbosity.detail(format_args!("{names}: renewed"));
                Ok(0)
            }
            Ok(Some(Answer::Lost { why })) => Err(Failure::new(LOST, why)),
            Ok(None) => {
                let known = store.or_lost_here(store.check().await);
                match known {
                    Err(failure) if failure.exit == LOST => Err(failure),
                    known => Err(not_from_here(&handle, known.err())),
                }
            }
            Err(error) => Err(Failure::new(STORE, format!("{names}: its holder process: {error}"))),
        }
    })?
}

/// The failure if the holder process cannot be asked: only that process can renew the lease, and
/// only its user on its machine can ask it.
fn not_from_here(handle: &Handle, trouble: Option<Failure>) -> Failure {
    let Handle { host, user, .. } = handle;
    let known = match trouble {
        None => "it is held".to_owned(),
        Some(failure) => format!("whether it is still held is not known ({})", failure.message),
    };
    Failure::usage(format!(
        "{}: {known}, but its holder process cannot be asked from here: renew it on {host}, as \
         {user}, with the same XDG_RUNTIME_DIR",
        handle.shown()
    ))
}
