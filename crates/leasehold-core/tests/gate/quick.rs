//! What one command does in place of a script: `SET … NX` beside a draw from the counter, and a
//! delete of the value that the holder expects. Each knows the gate alone. So the gate must be
//! there whenever the rest of the record matters.

use leasehold_core::model::{Gate, Hold, Record, State};
use leasehold_core::{End, HolderId, HolderInfo, Now};

/// Takes a name that has no gate. The number is drawn in any case. Returns the token.
pub(super) fn set(
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
pub(super) fn delete(record: &mut Record, now: Now, end: &End) -> bool {
    record.expire(now);
    let known = end.known.as_deref();
    let token = known.map(|known| known.token.micros());
    let info = known.map(|known| (*known.info).clone()).unwrap_or_default();
    let held = State::Held(Hold { id: end.request.id, token, info });
    record.gate.take_if(|gate| gate.state == held).is_some()
}
