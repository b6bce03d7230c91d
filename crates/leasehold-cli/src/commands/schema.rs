//! `leasehold schema`: prints or installs the tables and functions in a PostgreSQL database.

use leasehold::store::{Postgres, PostgresOptions, PostgresRoles};

use crate::args::Schema;
use crate::report::{Failure, Outcome, print};
use crate::runtime::block_on;

/// Prints the SQL, or runs it.
pub(crate) fn schema(args: &Schema) -> Outcome {
    let choice = args.store.choose()?;
    let url = &choice.url;
    if !url.is_on_postgres() {
        let why =
            format!("{url} needs no schema: name a database, as postgres://USER@HOST/DATABASE");
        return Err(Failure::usage(why));
    }
    let options = PostgresOptions::from_url(url.reveal()).map_err(leasehold::Error::from)?;
    let (holders, fencers) = (args.holder.iter().cloned(), args.fencer.iter().cloned());
    let roles = holders.fold(PostgresRoles::new(), PostgresRoles::holder);
    let roles = fencers.fold(roles, PostgresRoles::fencer);
    if !args.install {
        return print(options.script(&roles).trim_end()).map(|()| 0);
    }
    let is_new = block_on(Postgres::install(options, &roles))??;
    match is_new {
        true => args.store.verbosity.detail(format_args!("{url}: the schema is installed")),
        false => args.store.verbosity.detail(format_args!("{url}: the schema was there already")),
    }
    Ok(0)
}
