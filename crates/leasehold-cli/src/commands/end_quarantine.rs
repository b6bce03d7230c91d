//! `leasehold end-quarantine`: ends a quarantine, because an operator says that the store has
//! forgotten nothing.

use leasehold::Client;

use crate::args::StoreArgs;
use crate::connection::ask;
use crate::report::Outcome;

/// Ends the quarantine of the store, if there is one.
pub(crate) fn end_quarantine(args: &StoreArgs) -> Outcome {
    let choice = args.choose()?;
    let end = async |client: &Client| Ok(client.admin().end_quarantine().await?);
    let was_any = ask(&choice, args.verbosity, end)?;
    let (verbosity, url) = (args.verbosity, &choice.url);
    match was_any {
        true => verbosity.detail(format_args!("{url}: new locks are granted from now on")),
        false => verbosity.remark(format_args!(
            "{url}: the store keeps no quarantine (quarantine=), so there is nothing to end"
        )),
    }
    Ok(0)
}
