//! `leasehold give`: lets go of what `take` has taken.

use leasehold::LockName;

use crate::args::Give;
use crate::connection::{connect, holders};
use crate::report::{Failure, LOST, Outcome, Voice};
use crate::runtime::block_on;
use crate::store_choice;
use crate::taken::{Answer, Handle, HeldName, Order, ask};

/// Asks the holder process to let go. One that was killed, or is on another machine, cannot be
/// asked: then the lease is ended at the store.
pub(crate) fn give(args: &Give) -> Outcome {
    let voice = Voice::from(args.voice);
    let handle = Handle::decode(&args.handle).map_err(Failure::usage)?;
    block_on(async {
        match ask(&handle.socket, Order::Give).await {
            Ok(Some(Answer::Done)) => {
                voice.detail(format_args!("{}: given back", handle.shown()));
                Ok(0)
            }
            Ok(Some(Answer::Lost { why })) => Err(Failure::new(LOST, why)),
            // One that hangs renews all the same; it is told by its loss.
            Ok(None) | Err(_) => end_at_store(args, &handle, voice).await,
        }
    })?
}

async fn end_at_store(args: &Give, handle: &Handle, voice: Voice) -> Outcome {
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let store = choice.url.to_string();
    if store != handle.store {
        return Err(Failure::usage(format!(
            "{}: it was taken in the store {} and this is {store}: give it with --store, or on {}, \
             where it was taken",
            handle.shown(),
            handle.store,
            handle.host
        )));
    }
    let client = connect(&choice, voice).await?;
    let mut ended_before = Vec::new();
    for HeldName { name, token } in &handle.names {
        let admin = client.admin();
        let status = admin.inspect(name).await?;
        let is_ours = handle.holds(*token, &status);
        if is_ours && admin.revoke_now(name, *token).await? {
            voice.detail(format_args!("{name}: given back"));
        } else {
            let by = holders(&status).map_or_else(String::new, |by| format!(", and is {by}"));
            ended_before.push((name, by));
        }
    }
    client.close().await?;
    match &ended_before[..] {
        [] => Ok(0),
        [(name, by), ..] => Err(Failure::new(LOST, ended(name, by))),
    }
}

fn ended(name: &LockName, by: &str) -> String {
    format!("{name}: this lease has ended before: it was given back already, or was lost{by}")
}
