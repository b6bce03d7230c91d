//! Redisson's names for the keys and channels of a lock, and for its owners.

use leasehold_core::{HolderId, LockName};

/// The keys of one lock.
#[derive(Clone, Debug)]
pub(super) struct LockKeys {
    /// The key of the hash.
    pub(super) lock: String,
    /// The part of other keys and channels that stands for the lock. In a cluster it puts those
    /// keys in the lock's slot.
    pub(super) base: String,
}

impl LockKeys {
    /// Nothing is escaped, because Redisson escapes nothing.
    pub(super) fn of(prefix: &str, name: &LockName) -> Self {
        let lock = format!("{prefix}{name}");
        let base = if lock.contains('{') { lock.clone() } else { format!("{{{lock}}}") };
        Self { lock, base }
    }

    /// The key that expires with a hold of ours: the key of a reader's first entry.
    pub(super) fn hold(&self, id: HolderId) -> String {
        format!("{}:{}:rwlock_timeout:1", self.base, owner(id))
    }

    /// The counter of an `RFencedLock`.
    pub(super) fn counter(&self) -> String {
        format!("redisson_lock_token:{}", self.base)
    }

    /// The channels to which the waiters of an `RLock` and of an `RReadWriteLock` listen.
    pub(super) fn channels(&self) -> [String; 2] {
        ["redisson_lock__channel", "redisson_rwlock"].map(|kind| format!("{kind}:{}", self.base))
    }
}

/// An attempt as an owner. The client stands for the id of a JVM, and the attempt for the id of a
/// thread. So each guard is a different owner.
pub(super) fn owner(id: HolderId) -> String {
    let client = id.client.to_string();
    let parts = [&client[..8], &client[8..12], &client[12..16], &client[16..20], &client[20..]];
    format!("{}:{}", parts.join("-"), id.attempt)
}

/// Whether a field of a hash names an owner: `UUID:THREAD`, with `:write` after it for a writer.
pub(super) fn is_owner(field: &str) -> bool {
    let Some((uuid, thread)) = field.split_once(':') else { return false };
    let thread = thread.strip_suffix(":write").unwrap_or(thread);
    let is_uuid = uuid.len() == 36
        && uuid.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    is_uuid && !thread.is_empty() && thread.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use leasehold_core::ClientId;

    use super::*;

    #[test]
    fn other_names_share_the_slot_of_the_lock() {
        let names = |name| LockKeys::of("", &LockName::new(name).unwrap());
        assert_eq!(names("a").counter(), "redisson_lock_token:{a}");
        assert_eq!(names("b{a}").counter(), "redisson_lock_token:b{a}");
        assert_eq!(names("a").channels(), ["redisson_lock__channel:{a}", "redisson_rwlock:{a}"]);
    }

    #[test]
    fn an_attempt_is_an_owner_and_other_fields_are_not() {
        let id = HolderId { client: ClientId(0x0123_4567_89ab_cdef), attempt: 7 };
        let owner = owner(id);
        assert_eq!(owner, "00000000-0000-0000-0123-456789abcdef:7");
        assert!(is_owner(&owner) && is_owner(&format!("{owner}:write")));
        let spaced = owner.replace('-', " ");
        for field in ["mode", "", "a:7", &owner[..36], &format!("{owner}x"), &spaced] {
            assert!(!is_owner(field), "{field:?}");
        }
    }
}
