//! What one command does in place of a script: `SET … NX` beside a draw from the counter, and a
//! delete of the value that the holder expects.
//!
//! Each knows the gate alone. So the gate must be there whenever the rest of the record matters.

use super::record::{Gate, Hold, Record, State};
use crate::holder::{HolderId, HolderInfo};
use crate::time::Now;

/// Takes a name that has no gate. The number is drawn in any case. Returns the token.
pub fn set(
    record: &mut Record,
    counter: &mut u64,
    now: Now,
    (id, ttl_ms): (HolderId, u64),
) -> Option<u64> {
    record.expire(now);
    *counter = (*counter + 1).max(now.token_us);
    if record.gate.is_some() {
        return None;
    }
    let hold = Hold { id, token: None, info: HolderInfo::default() };
    record.gate = Some(Gate { state: State::Held(hold), until_ms: now.lease_us / 1_000 + ttl_ms });
    Some(*counter)
}

/// Ends the hold of a name that nobody awaits, if the gate says just what its holder expects.
pub fn delete(record: &mut Record, now: Now, expected: &Hold) -> bool {
    record.expire(now);
    let equals = |gate: &mut Gate| matches!(&gate.state, State::Held(hold) if hold == expected);
    record.gate.take_if(equals).is_some()
}
