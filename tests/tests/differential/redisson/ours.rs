//! The effect of an action of ours on a lock of Redisson: what Redisson's own verb does for an
//! owner of that name, and the value of the hold's key.

use std::time::Duration;

use leasehold_core::model::Times;
use leasehold_core::{
    Action, End, FencingToken, Grant, HolderId, HolderInfo, Keep, Mode, Reply, Take,
};

use super::record::{Entry, Hold, Record, Value, writer};
use crate::attempts::millis;

/// The longest promise to a reader, because the watchdogs of others set this end of the lock.
const WATCHDOG: Duration = Duration::from_secs(30);

/// The message of an action: the lock is free after a reader or a writer, or a holder must release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Free { wrote: bool },
    Revoked { id: HolderId, force: bool },
}

/// An action in progress.
pub(crate) struct Step<'a> {
    pub(crate) record: &'a mut Record,
    pub(crate) now_us: u64,
    pub(crate) fenced: bool,
    pub(crate) told: Vec<Told>,
}

/// An attempt in the form of a Redisson owner.
pub(crate) fn owner(id: HolderId) -> String {
    let client = format!("{:032x}", id.client.0);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| client[part].to_owned());
    format!("{}:{}", parts.join("-"), id.attempt)
}

fn facts(info: &HolderInfo) -> String {
    let label = info.label.as_ref().map(|label| format!("\t{label}")).unwrap_or_default();
    format!("{} {}{label}", info.pid, info.host)
}

impl Step<'_> {
    pub(crate) fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::End(end) => self.end(end),
            Action::Keep(keep) => self.keep(keep),
            Action::Revoke { id, force } => self.revoke(*id, *force),
            Action::Take(take) => self.take(take),
            _ => panic!("{action:?} is refused"),
        }
    }

    /// The hold of an attempt, if it has both its field and its key, and whether it writes.
    fn hold(&self, id: HolderId) -> Option<(Hold, bool)> {
        let owner = owner(id);
        let writes = self.record.owners.contains_key(&writer(&owner));
        let has_field = writes || self.record.owners.contains_key(&owner);
        match &self.record.entries.get(&(owner, 1))?.value {
            Value::Hold(hold) if has_field => Some((hold.clone(), writes)),
            _ => None,
        }
    }

    fn is_known(&self, id: HolderId) -> bool {
        let owner = owner(id);
        let has_key = |number| self.record.entries.contains_key(&(owner.clone(), number));
        (1..=2).any(has_key)
            || self.record.owners.contains_key(&owner)
            || self.record.owners.contains_key(&writer(&owner))
    }

    fn entry(&mut self, id: HolderId) -> &mut Entry {
        self.record.entries.get_mut(&(owner(id), 1)).unwrap()
    }

    fn end_ms(&self, ttl: Duration) -> u64 {
        self.now_us.div_ceil(1000) + millis(ttl)
    }

    fn mint(&mut self, least: u64) -> u64 {
        if self.fenced {
            self.record.counter += 1;
            return self.record.counter;
        }
        self.now_us.max(least)
    }

    fn granted(&self, token: u64) -> Reply {
        let counter = self.fenced.then(|| FencingToken::from_number(token).unwrap());
        Reply::Granted(Grant::new(counter.unwrap_or_else(|| FencingToken::from_micros(token))))
    }

    /// Neither the end of this hold nor the ends of others go back.
    fn extend(&mut self, id: HolderId, ttl: Duration) -> Reply {
        let (hold, writes) = self.hold(id).unwrap();
        let end_ms = self.end_ms(if writes { ttl } else { ttl.min(WATCHDOG) });
        let entry = self.entry(id);
        entry.end_ms = entry.end_ms.max(end_ms);
        self.record.end_ms = self.record.end_ms.max(self.entry(id).end_ms);
        self.granted(hold.token)
    }

    fn take(&mut self, take: &Take) -> Reply {
        let (id, now_us, ttl) = (take.request.id, self.now_us, take.ttl);
        // A copy of a request that was granted before.
        match self.hold(id) {
            Some((hold, _)) if hold.state == "held" => return self.extend(id, ttl),
            Some((hold, _)) if hold.state == "revoked" => return Reply::Revoked,
            _ if self.is_known(id) => return Reply::Closed,
            _ => {}
        }
        if let Some(from) = take.from {
            return self.take_over(take, from);
        }
        let reads = take.request.mode == Mode::Shared;
        let end_ms = self.end_ms(if reads { ttl.min(WATCHDOG) } else { ttl });
        let owner = owner(id);
        // A lock without a mode is an `RLock`, which Redisson's own readers overlook.
        let is_in = (self.record.is_free() || self.record.mode.is_some())
            && match reads {
                true => self.record.read_lock(&owner, end_ms),
                false => self.record.write_lock(&owner, now_us / 1000, end_ms),
            };
        if !is_in {
            let left_ms = (self.record.end_ms + 1).saturating_sub(now_us / 1000);
            return Reply::Busy { retry_after: Duration::from_millis(left_ms) };
        }
        let token = self.mint(0);
        self.put(id, token, &take.request.info, end_ms);
        self.granted(token)
    }

    fn put(&mut self, id: HolderId, token: u64, info: &HolderInfo, end_ms: u64) {
        let since_us = self.fenced.then_some(self.now_us);
        let hold = Hold { id, token, since_us, state: "held", facts: facts(info) };
        let value = Value::Hold(hold);
        self.record.entries.insert((owner(id), 1), Entry { value, end_ms });
    }

    fn take_over(&mut self, take: &Take, from: HolderId) -> Reply {
        let (id, reads) = (take.request.id, take.request.mode == Mode::Shared);
        let is_it = |(_, writes): &(Hold, bool)| *writes != reads;
        let Some((before, writes)) = self.hold(from).filter(is_it) else { return Reply::NotHeld };
        match before.state {
            "held" => {}
            "revoked" => return Reply::Revoked,
            _ => return Reply::NotHeld,
        }
        let token = self.mint(before.token + 1);
        let field = |id| if writes { writer(&owner(id)) } else { owner(id) };
        self.record.owners.remove(&field(from));
        self.record.owners.insert(field(id), 1);
        let entry = self.record.entries.remove(&(owner(from), 1)).unwrap();
        self.put(id, token, &take.request.info, entry.end_ms);
        self.bury(from, 1);
        self.extend(id, take.ttl)
    }

    fn keep(&mut self, keep: &Keep) -> Reply {
        let id = keep.request.id;
        match self.hold(id) {
            Some((hold, _)) if hold.state == "held" => {
                if let (Some(description), Value::Hold(hold)) =
                    (&keep.description, &mut self.entry(id).value)
                {
                    hold.facts = facts(&description.info);
                }
                self.extend(id, keep.ttl);
                Reply::Kept { contended: false }
            }
            Some((hold, _)) if hold.state == "revoked" => Reply::Revoked,
            _ => Reply::NotHeld,
        }
    }

    /// Ends a hold. Leaves a trace if a copy of a request may arrive.
    fn end(&mut self, end: &End) -> Reply {
        let End { request, closes, cooldown, .. } = end;
        let id = request.id;
        let Some((hold, writes)) = self.hold(id) else {
            // If the hash has a field of the owner, the trace would count as an entry.
            let owner = owner(id);
            if self.record.owners.contains_key(&writer(&owner)) {
                self.drop_hold(id, true);
            } else if self.record.owners.contains_key(&owner) {
                self.drop_hold(id, false);
            }
            if *closes {
                self.bury(id, 1);
            }
            return Reply::Ended(false);
        };
        if hold.state == "cooldown" {
            return Reply::Ended(false);
        }
        if !cooldown.is_zero() && hold.state == "held" {
            let end_ms = self.end_ms(*cooldown);
            self.put_state(id, "cooldown");
            self.entry(id).end_ms = end_ms;
            let others = if writes { None } else { self.record.last_end_ms() };
            self.record.end_ms = others.unwrap_or(0).max(end_ms);
            // The first key ends with the cooldown, or a reader would keep writers out for longer.
            if *closes {
                self.bury(id, 2);
            }
            return Reply::Ended(true);
        }
        self.drop_hold(id, writes);
        if *closes {
            self.bury(id, 1);
        }
        Reply::Ended(true)
    }

    fn put_state(&mut self, id: HolderId, state: &'static str) {
        if let Value::Hold(hold) = &mut self.entry(id).value {
            hold.state = state;
        }
    }

    fn bury(&mut self, id: HolderId, number: u64) {
        let end_ms = self.end_ms(Duration::from_millis(Times::USUAL.closed_ms));
        self.record.entries.insert((owner(id), number), Entry { value: Value::Trace, end_ms });
    }

    /// Ends a hold as Redisson does, and publishes that.
    fn drop_hold(&mut self, id: HolderId, writes: bool) {
        let owner = owner(id);
        let is_free = match writes {
            true => self.record.write_unlock(&owner, 0),
            false => self.record.read_unlock(&owner),
        };
        self.record.entries.remove(&(owner, 1));
        if is_free {
            self.told.push(Told::Free { wrote: writes });
        }
    }

    fn revoke(&mut self, id: HolderId, force: bool) -> Reply {
        let Some((hold, writes)) = self.hold(id) else { return Reply::Ended(false) };
        let is_kept = hold.state == "cooldown";
        if force || is_kept {
            self.drop_hold(id, writes);
        } else {
            self.put_state(id, "revoked");
        }
        if !is_kept {
            self.told.push(Told::Revoked { id, force });
        }
        Reply::Ended(true)
    }
}
