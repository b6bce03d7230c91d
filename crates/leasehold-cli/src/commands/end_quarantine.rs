//! `leasehold end-quarantine`: the word of an operator that a store has forgotten nothing.

use crate::args::EndQuarantine;
use crate::connection::connect;
use crate::report::{Failure, Outcome, Voice};
use crate::runtime::block_on;
use crate::store_choice;

/// Ends the quarantine of the store, if there is one.
pub(crate) fn end_quarantine(args: &EndQuarantine) -> Outcome {
    let voice = Voice::from(args.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    let was_any = block_on(async {
        let client = connect(&choice, voice).await?;
        let was_any = client.admin().end_quarantine().await?;
        client.close().await?;
        Ok::<_, Failure>(was_any)
    })??;
    match was_any {
        true => voice.detail(format_args!("{}: new locks are granted from now on", choice.url)),
        false => voice.remark(format_args!(
            "{}: the store keeps no quarantine (quarantine=), so there is nothing to end",
            choice.url
        )),
    }
    Ok(0)
}
