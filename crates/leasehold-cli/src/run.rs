//! `leasehold run`: a command under a lease.

use std::time::Duration;

use leasehold::show_duration;

use crate::args::{EndArgs, Run};
use crate::guarded::{Guarded, Work};
use crate::report::{Failure, Outcome, Voice};
use crate::session::{Session, lease_options};
use crate::{block_on, program, store_choice};

/// Longest time between TERM and KILL if the user gives none: 5 s, as `consul lock` has it. Shorter
/// leases get a quarter of their ttl.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// Runs the command.
pub(crate) fn run(args: &Run) -> Outcome {
    let voice = Voice::from(args.lock.voice);
    let kill_after = kill_after(args.end, args.lock.ttl)?;
    let options = lease_options(&args.lock, kill_after)?;
    let [program, ..] = args.command.as_slice() else {
        return Err(Failure::usage("there is no command to run"));
    };
    program::look_up(program)?;
    let choice = store_choice::choose(args.lock.store.store.as_ref())?;
    let work = Work {
        command: &args.command,
        kill_after,
        at_most: args.lock.hold.most(),
        on_lost: args.end.on_lost,
        signal: args.end.signal,
        voice,
    };
    block_on(async {
        let mut session = Session::open(&choice, voice, (&args.lock).into()).await?;
        let outcome = match session.acquire(&args.names, &args.lock, options).await {
            Ok(guard) => Guarded::run(work, &mut session, guard).await,
            Err(failure) => Err(failure),
        };
        session.close(outcome).await
    })?
}

/// The time between TERM and KILL. TERM is sent so much before the lease ends, so a large part of
/// the ttl would leave no time for renewals.
pub(crate) fn kill_after(end: EndArgs, ttl: Duration) -> Result<Duration, Failure> {
    let kill_after = end.kill_after.unwrap_or_else(|| LONGEST_GRACE.min(ttl / 4));
    if kill_after > ttl / 2 {
        return Err(Failure::usage(format!(
            "--kill-after {} is more than half of the ttl: TERM would come before a renewal had a \
             chance; give at most {}, or a longer --ttl",
            show_duration(kill_after),
            show_duration(ttl / 2)
        )));
    }
    Ok(kill_after)
}
