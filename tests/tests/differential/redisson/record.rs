//! A lock of Redisson as a value, and the effects of Redisson's own verbs: written from its source
//! (4.7.0), one function for each of its scripts.

use std::collections::BTreeMap;

use leasehold_core::HolderId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Read,
    Write,
}

/// All keys of one lock. Times are in ms; nothing ends by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The hash: each owner with the number of its entries, and when it ends.
    pub(crate) mode: Option<Mode>,
    pub(crate) owners: BTreeMap<String, u64>,
    pub(crate) end_ms: u64,
    /// The keys that end with an entry of a reader, or with a hold of ours: by owner and number.
    pub(crate) entries: BTreeMap<(String, u64), Entry>,
    pub(crate) counter: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) end_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Redisson's own value.
    Theirs,
    /// A trace: an attempt of ours has ended.
    Trace,
    Hold(Hold),
}

/// A hold of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) id: HolderId,
    pub(crate) token: u64,
    /// The time of the grant, if the token is a counter.
    pub(crate) since_us: Option<u64>,
    pub(crate) state: &'static str,
    /// Process, host and label.
    pub(crate) facts: String,
}

impl Value {
    /// The value as it is on the server.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Theirs => "1".to_owned(),
            Self::Trace => "leasehold-1 ended".to_owned(),
            Self::Hold(Hold { id, token, since_us, state, facts }) => {
                let since = since_us.map(|since_us| format!("/{since_us}")).unwrap_or_default();
                format!("leasehold-1 {id} {token}{since} {state} {facts}")
            }
        }
    }
}

pub(crate) fn writer(owner: &str) -> String {
    format!("{owner}:write")
}

impl Record {
    pub(crate) fn is_free(&self) -> bool {
        self.owners.is_empty()
    }

    /// Forgets the keys that have ended.
    pub(crate) fn collect(&mut self, now_ms: u64) {
        if self.end_ms <= now_ms {
            self.delete();
        }
        self.entries.retain(|_, entry| entry.end_ms > now_ms);
    }

    fn delete(&mut self) {
        (self.mode, self.end_ms) = (None, 0);
        self.owners.clear();
    }

    /// Enters an `RLock`, or with a counter an `RFencedLock`. Returns whether it is entered.
    pub(crate) fn lock(&mut self, owner: &str, end_ms: u64, fenced: bool) -> bool {
        let is_mine = self.owners.contains_key(owner);
        let is_entered = self.is_free() || is_mine;
        if is_entered {
            self.counter += u64::from(fenced);
            *self.owners.entry(owner.to_owned()).or_default() += 1;
            self.end_ms = end_ms;
        }
        is_entered
    }

    pub(crate) fn unlock(&mut self, owner: &str, end_ms: u64) {
        match self.leave(owner) {
            None => {}
            Some(0) => self.delete(),
            Some(_) => self.end_ms = end_ms,
        }
    }

    /// Removes an entry. Returns how many are left, or none if there was none. An empty field goes.
    fn leave(&mut self, field: &str) -> Option<u64> {
        let count = self.owners.get_mut(field)?;
        *count -= 1;
        let left = *count;
        if left == 0 {
            self.owners.remove(field);
        }
        Some(left)
    }

    pub(crate) fn force_unlock(&mut self, only: Option<Mode>) {
        if only.is_none() || self.mode == only {
            self.delete();
        }
    }

    /// The effect of the watchdog on a field of an `RLock`, or of a writer.
    pub(crate) fn renew(&mut self, field: &str, end_ms: u64) {
        if self.owners.contains_key(field) {
            self.end_ms = end_ms;
        }
    }

    /// Whether a reader is let in.
    pub(crate) fn read_lock(&mut self, owner: &str, end_ms: u64) -> bool {
        match self.mode {
            None => {
                self.mode = Some(Mode::Read);
                self.owners.insert(owner.to_owned(), 1);
                self.end_ms = end_ms;
            }
            Some(Mode::Write) if !self.owners.contains_key(&writer(owner)) => return false,
            Some(_) => {
                *self.owners.entry(owner.to_owned()).or_default() += 1;
                self.end_ms = self.end_ms.max(end_ms);
            }
        }
        let entry = Entry { value: Value::Theirs, end_ms };
        self.entries.insert((owner.to_owned(), self.owners[owner]), entry);
        true
    }

    /// A reader leaves; returns whether that frees the lock. The hash ends with the last entry that
    /// is left.
    pub(crate) fn read_unlock(&mut self, owner: &str) -> bool {
        let (Some(mode), Some(left)) = (self.mode, self.leave(owner)) else { return false };
        self.entries.remove(&(owner.to_owned(), left + 1));
        if !self.owners.is_empty() {
            if let Some(end_ms) = self.last_end_ms() {
                self.end_ms = end_ms;
                return false;
            }
            if mode == Mode::Write {
                return false;
            }
        }
        self.delete();
        true
    }

    pub(crate) fn last_end_ms(&self) -> Option<u64> {
        let is_entry = |owner: &str, number: u64| {
            self.owners.get(owner).is_some_and(|count| (1..=*count).contains(&number))
        };
        let entries = self.entries.iter().filter(|((owner, number), _)| is_entry(owner, *number));
        entries.map(|(_, entry)| entry.end_ms).max()
    }

    /// The effect of the watchdog on a reader, whatever another reader was promised.
    pub(crate) fn renew_reader(&mut self, owner: &str, end_ms: u64) {
        let Some(count) = self.owners.get(owner) else { return };
        for number in 1..=*count {
            if let Some(entry) = self.entries.get_mut(&(owner.to_owned(), number)) {
                entry.end_ms = end_ms;
            }
        }
        self.end_ms = end_ms;
    }

    /// Whether a writer is let in. The lease of a writer that holds already is prolonged.
    pub(crate) fn write_lock(&mut self, owner: &str, now_ms: u64, end_ms: u64) -> bool {
        let field = writer(owner);
        match (self.mode, self.owners.get_mut(&field)) {
            (None, _) => {
                self.mode = Some(Mode::Write);
                self.owners.insert(field, 1);
                self.end_ms = end_ms;
            }
            (Some(Mode::Write), Some(count)) => {
                *count += 1;
                self.end_ms += end_ms - now_ms;
            }
            (Some(_), _) => return false,
        }
        true
    }

    /// A writer leaves; returns whether that frees the lock. If it also reads, it goes on reading.
    pub(crate) fn write_unlock(&mut self, owner: &str, end_ms: u64) -> bool {
        if self.mode != Some(Mode::Write) {
            return false;
        }
        match self.leave(&writer(owner)) {
            None => false,
            Some(0) if self.owners.is_empty() => {
                self.delete();
                true
            }
            Some(0) => {
                self.mode = Some(Mode::Read);
                false
            }
            Some(_) => {
                self.end_ms = end_ms;
                false
            }
        }
    }
}
