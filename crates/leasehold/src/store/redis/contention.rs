//! The names for which somebody else asked a moment ago: a script is asked for them at once, since
//! a SET would find a value there.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use leasehold_core::LockName;

use crate::mutex::Mutex;

/// How long a name counts as contended: 2 s.
const LIFE: Duration = Duration::from_secs(2);

/// The most names that are remembered, by 24 bytes each.
const MOST: usize = 4_096;

/// The contended names of one store. Two names may count as one: then one more script is asked.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    hasher: RandomState,
    seen: Mutex<HashMap<u64, Instant>>,
}

impl Contention {
    /// Remembers that somebody else asks for this name.
    pub(crate) fn note(&self, name: &LockName) {
        let (name, now) = (self.hasher.hash_one(name), Instant::now());
        let mut seen = self.seen.lock();
        if seen.len() >= MOST {
            seen.retain(|_, at| now.duration_since(*at) < LIFE);
        }
        if seen.len() < MOST {
            seen.insert(name, now);
        }
    }

    /// Whether somebody else asked for this name a moment ago.
    pub(crate) fn is_likely(&self, name: &LockName) -> bool {
        let seen = self.seen.lock();
        !seen.is_empty()
            && seen.get(&self.hasher.hash_one(name)).is_some_and(|at| at.elapsed() < LIFE)
    }
}
