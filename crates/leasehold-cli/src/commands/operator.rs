//! The commands for operators that show no lock: `revoke`, `end-quarantine`, `schema` and `where`.

use leasehold::Client;
use leasehold::store::{Postgres, PostgresOptions, PostgresRoles, check_url};
use serde::Serialize;

use crate::args::{PlainOutputArgs, Revoke, Schema, StoreArgs};
use crate::connection::ask;
use crate::report::{Failure, NO, Outcome, escaped, print, print_json};
use crate::runtime::block_on;

/// Revokes exactly this lease.
pub(crate) fn revoke(args: &Revoke) -> Outcome {
    let choice = args.store.choose()?;
    let (name, lease) = (&args.name, args.lease);
    let was_held = ask(&choice, args.store.verbosity, async |client| match args.force {
        true => Ok(client.admin().revoke_now(name, lease).await?),
        false => Ok(client.admin().revoke(name, lease).await?),
    })?;
    if !was_held {
        choice.warn_if_local(args.store.verbosity);
        return Err(Failure::new(NO, format!("{name}: the lease {lease} does not hold it")));
    }
    match args.force {
        true => args.store.verbosity.remark(format_args!(
            "{name}: the lease {lease} has ended; its holder may still be at work"
        )),
        false => args.store.verbosity.detail(format_args!(
            "{name}: the holder of the lease {lease} is asked to stop, and lets go"
        )),
    }
    Ok(0)
}

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

/// Prints the SQL, or runs it.
pub(crate) fn schema(args: &Schema) -> Outcome {
    let choice = args.store.choose()?;
    let url = &choice.url;
    if !url.is_on_postgres() {
        let why = "needs no schema: name a database, as postgres://USER@HOST/DATABASE";
        return Err(Failure::usage(format!("{url} {why}")));
    }
    let options = PostgresOptions::from_url(url.reveal()).map_err(leasehold::Error::from)?;
    let mut roles = PostgresRoles::default();
    roles.holders.clone_from(&args.holder);
    roles.fencers.clone_from(&args.fencer);
    roles.releasers.clone_from(&args.releaser);
    if !args.install {
        return print(options.script(&roles).trim_end()).map(|()| 0);
    }
    let is_new = block_on(Postgres::install(options, &roles))??;
    let state = if is_new { "is installed" } else { "was there already" };
    args.store.verbosity.detail(format_args!("{url}: the schema {state}"));
    Ok(0)
}

#[derive(Serialize)]
struct ChoiceView {
    store: String,
    because: String,
}

/// Prints the chosen store and the reason, and then fails if it is no valid store URL.
pub(crate) fn print_choice(args: &PlainOutputArgs) -> Outcome {
    let choice = args.store.choose()?;
    let line = ChoiceView { store: choice.url.to_string(), because: choice.because.to_string() };
    match args.json {
        true => print_json(&line)?,
        false => print(format_args!("{}  ({})", escaped(&line.store), escaped(&line.because)))?,
    }
    check_url(choice.url.reveal())
        .map_err(|error| Failure::usage(format!("{}: {error}", line.because)))?;
    Ok(0)
}
