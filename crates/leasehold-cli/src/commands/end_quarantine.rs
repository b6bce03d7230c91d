//! `leasehold end-quarantine`: the word of an operator that a store has forgotten nothing.

use leasehold::Client;

use crate::args::EndQuarantine;
use crate::connection::ask;
use crate::report::{Outcome, Voice};
use crate::store_choice;

/// Ends the quarantine of the store, if there is one.
pub(crate) fn end_quarantine(args: &EndQuarantine) -> Outcome {
    let voice = Voice::from(args.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let end = async |client: &Client| Ok(client.admin().end_quarantine().await?);
    let was_any = ask(&choice, voice, end)?;
    match was_any {
        true => voice.detail(format_args!("{}: new locks are granted from now on", choice.url)),
        false => voice.remark(format_args!(
            "{}: the store keeps no quarantine (quarantine=), so there is nothing to end",
            choice.url
        )),
    }
    Ok(0)
}
