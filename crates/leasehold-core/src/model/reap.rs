//! Reap: a client is known to be dead.

use super::apply::Outcome;
use super::record::Record;
use super::{Rules, Step};
use crate::holder::{ClientId, HolderId, HolderInfo, Mode};
use crate::request::{End, Reply, Request};
use crate::time::Now;

/// Ends all holds and waits of a client whose process is known to be dead, and grants what becomes
/// free to the next waiters.
pub fn reap(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    rules: Rules,
    client: ClientId,
) -> Outcome {
    Step::of(record, counter, now, rules, |step| {
        // The waits end first, so that the client is not granted the name again.
        step.record.queue.retain(|_, waiter| waiter.request.id.client != client);
        let mut ended: Vec<HolderId> = step.record.shares.keys().copied().collect();
        ended.extend(step.record.hold().map(|hold| hold.id));
        ended.retain(|id| id.client == client);
        for id in &ended {
            let request = Request::new(*id, Mode::Exclusive, HolderInfo::default());
            step.end(&End::new(request));
        }
        Reply::Ended(!ended.is_empty())
    })
}
