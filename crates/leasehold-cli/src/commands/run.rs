//! `leasehold run`: a command under a lease.

use crate::args::Run;
use crate::child::guardian::idle::IdleGuardian;
use crate::child::leased_command::{CommandSpec, LeasedCommand};
use crate::child::program;
use crate::connection::{Connection, label_of_command, lease_options};
use crate::report::Outcome;
use crate::runtime::block_on;

/// Runs the command.
pub(crate) fn run(args: &Run) -> Outcome {
    let kill_after = args.end.kill_after(args.lock.ttl)?;
    let mut options = lease_options(&args.lock, kill_after, label_of_command(&args.command))?;
    options.once_per = args.once_per;
    program::look_up(&args.command[0])?;
    let choice = args.lock.store.choose()?;
    let max_hold = args.lock.max_hold.as_ref();
    let spec = CommandSpec { end: &args.end, kill_after, max_hold, ready_file: None };
    block_on(async {
        // The guardian starts while leasehold asks for the lease.
        let guardian = IdleGuardian::start(&args.command)?;
        let mut connection = Connection::open_for(&args.lock, &choice).await?;
        let outcome = match connection.acquire(&args.lock, options).await {
            Ok(guard) => LeasedCommand::run(spec, guardian, &mut connection, guard).await,
            Err(failure) => Err(failure),
        };
        connection.close(outcome).await
    })?
}
