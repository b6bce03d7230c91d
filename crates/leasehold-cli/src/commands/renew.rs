//! `leasehold renew`: has what was taken end later, or sooner.

use crate::args::Renew;
use crate::report::{Failure, LOST, Outcome, STORE, Voice};
use crate::runtime::block_on;
use crate::taken::{Answer, Handle, Order, ask};

/// Tells the holder process until when it shall hold.
pub(crate) fn renew(args: &Renew) -> Outcome {
    let voice = Voice::from(args.voice);
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    let (names, host) = (handle.shown(), &handle.host);
    let order = Order::Renew { for_span: args.for_span };
    match block_on(ask(&handle.socket, order))? {
        Ok(Some(Answer::Done)) => {
            voice.detail(format_args!("{names}: renewed"));
            Ok(0)
        }
        Ok(Some(Answer::Lost { why })) => Err(Failure::new(LOST, why)),
        Ok(None) => Err(Failure::new(
            LOST,
            format!(
                "{names}: nobody here renews this lease any more: it was given back, is over or \
                 was lost, or else it was taken on another machine than this, {host}, or by \
                 another user (see `leasehold show`)"
            ),
        )),
        Err(error) => Err(Failure::new(STORE, format!("{names}: its holder process: {error}"))),
    }
}
