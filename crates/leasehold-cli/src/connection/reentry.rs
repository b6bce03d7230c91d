//! Commands that ask for a lock while a `leasehold run` around them holds one.

use leasehold::admin::{ClientId, HolderId, Status};
use leasehold::lease::Mode;
use leasehold::{Guard, LockName};

/// The variable that says who holds the lease.
const HOLDER: &str = "LEASEHOLD_HOLDER";

/// The variable that says who holds the leases further out, the outermost first.
const OUTER_HOLDERS: &str = "LEASEHOLD_OUTER_HOLDERS";

/// Whether this process runs under a lease.
pub(crate) fn is_nested() -> bool {
    std::env::var_os(HOLDER).is_some()
}

/// What a command under this lease is told of the leases that it runs under.
pub(crate) fn variables(guard: &Guard) -> [(&'static str, String); 2] {
    let outer: Vec<String> = outer_holders().iter().map(HolderId::to_string).collect();
    [(HOLDER, guard.holder().to_string()), (OUTER_HOLDERS, outer.join(" "))]
}

/// Who holds the leases that this process runs under, the outermost first.
fn outer_holders() -> Vec<HolderId> {
    let variables = [OUTER_HOLDERS, HOLDER].map(|name| std::env::var(name).unwrap_or_default());
    variables.iter().flat_map(|ids| ids.split(' ')).filter_map(|id| id.parse().ok()).collect()
}

/// Why whoever waits for this lock waits for itself: what a lease around it holds is not let go
/// before this process has ended.
pub(crate) fn waits_for_itself(name: &LockName, mode: Mode, status: &Status) -> Option<String> {
    let outer: Vec<ClientId> = outer_holders().iter().map(|id| id.client).collect();
    let own = status.holders.iter().filter(|holder| outer.contains(&holder.id.client));
    let own: Vec<Mode> = own.map(|holder| holder.mode).collect();
    let is_blocked = match mode {
        Mode::Upgradable => own.iter().any(|mode| *mode != Mode::Shared),
        // Readers hold together, yet not across a writer that waits between them.
        Mode::Shared => {
            let writer_waits = status.waiters.iter().any(|waiter| waiter.mode == Mode::Exclusive);
            own.contains(&Mode::Exclusive) || (!own.is_empty() && writer_waits)
        }
        Mode::Permits { count, capacity } => {
            let held = own.iter().map(|mode| match mode {
                Mode::Permits { count, .. } => u64::from(*count),
                _ => u64::from(capacity),
            });
            !own.is_empty() && held.sum::<u64>() + u64::from(count) > u64::from(capacity)
        }
        _ => !own.is_empty(),
    };
    is_blocked.then(|| {
        format!("{name} is held by the leasehold run around this command: it would wait for itself")
    })
}
