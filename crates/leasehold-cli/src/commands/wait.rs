//! `leasehold wait`: waits until names are free, without taking them.

use leasehold::Error;
use leasehold::lease::Mode;

use crate::args::Wait;
use crate::connection::Connection;
use crate::connection::WaitBudget;
use crate::report::{BUSY, Failure, Outcome};
use crate::runtime::block_on;

/// Waits until nobody holds any of the names.
pub(crate) fn wait(args: &Wait) -> Outcome {
    let choice = args.store.choose()?;
    let budget = args.wait.map_or(WaitBudget::Forever, WaitBudget::Within);
    block_on(async {
        let mut connection = Connection::open(&choice, args.store.verbosity, budget).await?;
        let lock = match args.names.as_slice() {
            [name] => connection.client.mutex(name),
            names => connection.client.multi(names),
        };
        let waiting = async {
            let freed = match args.wait {
                Some(limit) => lock.wait_free_within(limit).await,
                None => lock.wait_free().await,
            };
            freed.map_err(still_busy)
        };
        let freed = connection.wait(&args.names, Mode::Exclusive, waiting).await;
        connection.close(freed.map(|()| 0)).await
    })?
}

fn still_busy(error: Error) -> Failure {
    match error {
        Error::Timeout { .. } => Failure::expected(BUSY, error.to_string()),
        other => other.into(),
    }
}
