//! Commands that ask for a lock within a `leasehold run` that already holds one.

use leasehold::admin::{ClientId, HolderId, Status};
use leasehold::lease::Mode;
use leasehold::{Guard, LockName};

/// The variable with the holder of the lease.
const HOLDER: &str = "LEASEHOLD_HOLDER";

/// The variable with the holders of the outer leases, the outermost first.
const OUTER_HOLDERS: &str = "LEASEHOLD_OUTER_HOLDERS";

/// Whether this process runs under a lease.
pub(crate) fn is_nested() -> bool {
    std::env::var_os(HOLDER).is_some()
}

/// The variables by which a command knows the leases that it runs under.
pub(crate) fn variables(guard: &Guard) -> Vec<(String, String)> {
    let outer: Vec<String> = outer_holders().iter().map(HolderId::to_string).collect();
    let mut variables = vec![(HOLDER.to_owned(), guard.holder().to_string())];
    if !outer.is_empty() {
        variables.push((OUTER_HOLDERS.to_owned(), outer.join(" ")));
    }
    variables
}

/// The holders of the leases that this process runs under, the outermost first.
fn outer_holders() -> Vec<HolderId> {
    let variables = [OUTER_HOLDERS, HOLDER].map(|name| std::env::var(name).unwrap_or_default());
    variables.iter().flat_map(|ids| ids.split(' ')).filter_map(|id| id.parse().ok()).collect()
}

/// The message if this process would wait for itself: a lease around this process is released only
/// after this process has ended.
pub(crate) fn waits_for_itself(name: &LockName, mode: Mode, status: &Status) -> Option<String> {
    // By client, because another task of an outer run may hold the lease, too.
    let outer: Vec<ClientId> = outer_holders().iter().map(|id| id.client).collect();
    let own = status.holders.iter().filter(|holder| outer.contains(&holder.id.client));
    let writer_waits = status.waiters.iter().any(|waiter| waiter.mode == Mode::Exclusive);
    let is_blocked = mode.held_up_by(own.map(|holder| holder.mode), writer_waits).is_some();
    is_blocked.then(|| {
        format!("{name} is held by the leasehold run around this command: it would wait for itself")
    })
}
