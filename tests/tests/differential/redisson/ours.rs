//! The effect of an action of ours on a lock of Redisson: what Redisson's own verb does for an
//! owner of that name, and the value of the hold's key.

use std::time::Duration;

use leasehold_core::model::TOMBSTONE_LIFE;
use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{
    Acquire, Action, Adopt, Cancelled, FencingToken, Grant, HolderId, HolderInfo, Mode, Reply,
};

use super::record::{Entry, Hold, Record, Value, writer};
use crate::history::micros;

/// The longest promise to a reader, because the watchdogs of others set this end of the lock.
const WATCHDOG: Duration = Duration::from_secs(30);

/// The message of an action: the lock is free after a reader or a writer, or a holder must release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Free { wrote: bool },
    Revoked { id: HolderId, token: FencingToken, force: bool },
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
            Action::Acquire(request) => self.acquire(request),
            Action::Adopt(request) => self.adopt(request),
            Action::Cancel { id, unanswered } => {
                match self.release(*id, Duration::ZERO, *unanswered, true) {
                    Reply::Released => Reply::Cancelled(Cancelled::Released),
                    _ => Reply::Cancelled(Cancelled::Unknown),
                }
            }
            Action::Describe { id, info } => self.describe(*id, info),
            Action::Poll { id, ttl } => match self.renew(*id, *ttl) {
                granted @ Reply::Granted(_) => granted,
                _ => Reply::Gone,
            },
            Action::Release { id, cooldown, unanswered } => {
                self.release(*id, *cooldown, *unanswered, *unanswered)
            }
            Action::Renew { id, ttl, .. } => self.renew(*id, *ttl),
            Action::Revoke { id, token, force } => self.revoke(*id, *token, *force),
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
        (self.now_us + micros(ttl)).div_ceil(1000)
    }

    fn token(&self, token_us: u64) -> FencingToken {
        match self.fenced {
            true => FencingToken::from_number(token_us - TOKEN_EPOCH_US).unwrap(),
            false => FencingToken::from_micros(token_us),
        }
    }

    /// A token in the form in which a value has it.
    fn counted(&self, token: FencingToken) -> u64 {
        if self.fenced { TOKEN_EPOCH_US + token.get() } else { token.micros() }
    }

    fn mint(&mut self, least_us: u64) -> u64 {
        if self.fenced {
            self.record.counter += 1;
            return TOKEN_EPOCH_US + self.record.counter;
        }
        self.now_us.max(least_us)
    }

    fn granted(&mut self, id: HolderId, token_us: u64) -> Reply {
        let end_ms = self.entry(id).end_ms;
        Reply::Granted(Grant::new(self.token(token_us), end_ms * 1000))
    }

    /// Neither the end of this hold nor the ends of others go back.
    fn extend(&mut self, id: HolderId, ttl: Duration) -> Reply {
        let (hold, writes) = self.hold(id).unwrap();
        let end_ms = self.end_ms(if writes { ttl } else { ttl.min(WATCHDOG) });
        let entry = self.entry(id);
        entry.end_ms = entry.end_ms.max(end_ms);
        self.record.end_ms = self.record.end_ms.max(self.entry(id).end_ms);
        self.granted(id, hold.token_us)
    }

    fn acquire(&mut self, request: &Acquire) -> Reply {
        let (id, now_us) = (request.id, self.now_us);
        if now_us > request.not_after_us {
            return Reply::Late;
        }
        if let Some(repeated) = self.repeated(id, request.ttl) {
            return repeated;
        }
        let reads = request.mode == Mode::Shared;
        let end_ms = self.end_ms(if reads { request.ttl.min(WATCHDOG) } else { request.ttl });
        let owner = owner(id);
        // A lock without a mode is an `RLock`, which Redisson's own readers overlook.
        let is_in = (self.record.is_free() || self.record.mode.is_some())
            && match reads {
                true => self.record.read_lock(&owner, end_ms),
                false => self.record.write_lock(&owner, now_us / 1000, end_ms),
            };
        if !is_in {
            let left_us = ((self.record.end_ms + 1) * 1000).saturating_sub(now_us);
            return Reply::Busy { retry_after: Duration::from_micros(left_us) };
        }
        let token_us = self.mint(0);
        self.put(id, token_us, &request.info, end_ms);
        self.granted(id, token_us)
    }

    /// The answer for a copy of an acquire or an adoption that was done before.
    fn repeated(&mut self, id: HolderId, ttl: Duration) -> Option<Reply> {
        match self.hold(id) {
            Some((hold, _)) if hold.state == "held" => Some(self.extend(id, ttl)),
            _ => self.is_known(id).then_some(Reply::Stale),
        }
    }

    fn put(&mut self, id: HolderId, token_us: u64, info: &HolderInfo, end_ms: u64) {
        let since_us = self.fenced.then_some(self.now_us);
        let hold = Hold { id, token_us, since_us, state: "held", facts: facts(info) };
        let value = Value::Hold(hold);
        self.record.entries.insert((owner(id), 1), Entry { value, end_ms });
    }

    fn adopt(&mut self, Adopt { from, token, request, .. }: &Adopt) -> Reply {
        if self.now_us > request.not_after_us {
            return Reply::Late;
        }
        if let Some(repeated) = self.repeated(request.id, request.ttl) {
            return repeated;
        }
        let expected_us = token.map_or(0, |token| self.counted(token));
        let reads = request.mode == Mode::Shared;
        let is_it =
            |(hold, writes): &(Hold, bool)| hold.token_us == expected_us && *writes != reads;
        let Some((before, writes)) = self.hold(*from).filter(is_it) else {
            return self.not_held();
        };
        match before.state {
            "held" => {}
            "revoked" => return Reply::Revoked(true),
            _ => return self.not_held(),
        }
        let token_us = self.mint(expected_us + 1);
        let field = |id| if writes { writer(&owner(id)) } else { owner(id) };
        self.record.owners.remove(&field(*from));
        self.record.owners.insert(field(request.id), 1);
        let entry = self.record.entries.remove(&(owner(*from), 1)).unwrap();
        self.put(request.id, token_us, &request.info, entry.end_ms);
        self.bury(*from, 1);
        self.extend(request.id, request.ttl)
    }

    fn not_held(&self) -> Reply {
        let token_of = |field: &String| {
            let owner = field.trim_end_matches(":write").to_owned();
            match &self.record.entries.get(&(owner, 1))?.value {
                Value::Hold(hold) => Some(hold.token_us),
                Value::Theirs | Value::Trace => None,
            }
        };
        let newest_us = self.record.owners.keys().filter_map(token_of).max();
        Reply::NotHeld { newest: newest_us.map(|token_us| self.token(token_us)) }
    }

    fn describe(&mut self, id: HolderId, info: &HolderInfo) -> Reply {
        match self.hold(id) {
            Some((hold, _)) if hold.state == "revoked" => Reply::Revoked(true),
            Some((hold, _)) if hold.state == "held" => {
                if let Value::Hold(hold) = &mut self.entry(id).value {
                    hold.facts = facts(info);
                }
                self.granted(id, hold.token_us)
            }
            _ => self.not_held(),
        }
    }

    fn renew(&mut self, id: HolderId, ttl: Duration) -> Reply {
        match self.hold(id) {
            Some((hold, _)) if hold.state == "held" => self.extend(id, ttl),
            Some((hold, _)) if hold.state == "revoked" => Reply::Revoked(true),
            _ => self.not_held(),
        }
    }

    /// Releases. Leaves a trace if a copy of the acquire may arrive, or if there was no hold.
    fn release(&mut self, id: HolderId, cooldown: Duration, held: bool, unknown: bool) -> Reply {
        let Some((hold, writes)) = self.hold(id) else {
            let reply = self.not_held();
            // If the hash has a field of the owner, the trace would count as an entry.
            let owner = owner(id);
            if self.record.owners.contains_key(&writer(&owner)) {
                self.drop_hold(id, true);
            } else if self.record.owners.contains_key(&owner) {
                self.drop_hold(id, false);
            }
            if unknown {
                self.bury(id, 1);
            }
            return reply;
        };
        if hold.state == "cooldown" {
            return Reply::Released;
        }
        if !cooldown.is_zero() {
            let end_ms = self.end_ms(cooldown);
            self.put_state(id, "cooldown");
            self.entry(id).end_ms = end_ms;
            let others = if writes { None } else { self.record.last_end_ms() };
            self.record.end_ms = others.unwrap_or(0).max(end_ms);
            // The first key ends with the cooldown, or a reader would keep writers out for longer.
            if held {
                self.bury(id, 2);
            }
            return Reply::Released;
        }
        self.drop_hold(id, writes);
        if held {
            self.bury(id, 1);
        }
        Reply::Released
    }

    fn put_state(&mut self, id: HolderId, state: &'static str) {
        if let Value::Hold(hold) = &mut self.entry(id).value {
            hold.state = state;
        }
    }

    fn bury(&mut self, id: HolderId, number: u64) {
        let end_ms = self.end_ms(TOMBSTONE_LIFE);
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

    fn revoke(&mut self, id: HolderId, token: FencingToken, force: bool) -> Reply {
        let counted_us = self.counted(token);
        let Some((hold, writes)) = self.hold(id).filter(|(hold, _)| hold.token_us == counted_us)
        else {
            return Reply::Revoked(false);
        };
        let is_kept = hold.state == "cooldown";
        if force || is_kept {
            self.drop_hold(id, writes);
        } else {
            self.put_state(id, "revoked");
        }
        if !is_kept {
            self.told.push(Told::Revoked { id, token, force });
        }
        Reply::Revoked(true)
    }
}
