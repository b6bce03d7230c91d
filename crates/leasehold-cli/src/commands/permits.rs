//! `leasehold permits`: changes how many permits of a semaphore there are.

use leasehold::Client;

use crate::args::Permits;
use crate::connection::ask;
use crate::report::{Failure, NO, Outcome};

/// Sets the capacity of a semaphore that is in use.
pub(crate) fn permits(args: &Permits) -> Outcome {
    let choice = args.store.choose()?;
    let (name, capacity) = (&args.name, args.capacity);
    let set = async |client: &Client| Ok(client.admin().set_capacity(name, capacity).await?);
    let before = ask(&choice, args.store.verbosity, set)?;
    let Some(before) = before else {
        let why = "nobody holds or awaits it: the next request sets the number of permits";
        return Err(Failure::new(NO, format!("{name}: {why}")));
    };
    args.store
        .verbosity
        .detail(format_args!("{name}: the capacity is {capacity}, and was {before}"));
    Ok(0)
}
