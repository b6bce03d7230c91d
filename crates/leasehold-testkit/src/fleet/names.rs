//! Which client holds each lock, and how long the lock was idle before.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::FencingToken;
use leasehold::time::Instant;

/// How a lock became free, as far as the simulation knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Never,
    Released(Instant),
    /// The holder was killed or has lost the lease, or a server was gone meanwhile.
    Otherwise(Instant),
}

#[derive(Clone, Debug)]
struct Name {
    inside: BTreeSet<usize>,
    left: Left,
    /// Until then, clients of the name may still search for its server.
    disturbed_until: Instant,
    highest: Option<FencingToken>,
}

/// All names.
#[derive(Debug)]
pub(super) struct Names {
    names: Vec<Name>,
    /// The times from releases to the grants of waiters.
    pub(super) hand_overs: Vec<Duration>,
    /// The longest time that a lock was idle, without a release, while a client waited.
    pub(super) longest_idle: Duration,
    pub(super) double_holds: u64,
    pub(super) tokens_back: u64,
}

impl Names {
    pub(super) fn new(count: usize) -> Self {
        let name = Name {
            inside: BTreeSet::new(),
            left: Left::Never,
            disturbed_until: Instant::default(),
            highest: None,
        };
        Self {
            names: vec![name; count],
            hand_overs: Vec::new(),
            longest_idle: Duration::ZERO,
            double_holds: 0,
            tokens_back: 0,
        }
    }

    /// Records that a client holds the name, which it requested at `asked`.
    pub(super) fn enter(
        &mut self,
        name: usize,
        client: usize,
        token: FencingToken,
        (asked, now): (Instant, Instant),
    ) {
        let entry = &mut self.names[name];
        self.double_holds += u64::from(!entry.inside.is_empty());
        self.tokens_back += u64::from(entry.highest.is_some_and(|highest| token <= highest));
        match entry.left {
            // Otherwise the lock was free when it was requested.
            Left::Released(at) if at > asked => self.hand_overs.push(now.saturating_since(at)),
            Left::Otherwise(at) => {
                self.longest_idle = self.longest_idle.max(now.saturating_since(at.max(asked)));
            }
            Left::Released(_) | Left::Never => {}
        }
        entry.highest = entry.highest.max(Some(token));
        entry.inside.insert(client);
        entry.left = Left::Never;
    }

    /// Records that the client has released.
    pub(super) fn leave(&mut self, name: usize, client: usize, now: Instant, releases: bool) {
        let entry = &mut self.names[name];
        if entry.inside.remove(&client) {
            let is_usual = releases && now > entry.disturbed_until;
            entry.left = if is_usual { Left::Released(now) } else { Left::Otherwise(now) };
        }
    }

    /// Records that another server serves the name from now on. Until its clients know that, no
    /// hand-over counts as usual.
    pub(super) fn disturb(&mut self, name: usize, now: Instant, until: Instant) {
        let entry = &mut self.names[name];
        entry.disturbed_until = until;
        if matches!(entry.left, Left::Released(_)) {
            entry.left = Left::Otherwise(now);
        }
    }

    /// Whether a client holds the name.
    pub(super) fn is_held(&self, name: usize) -> bool {
        !self.names[name].inside.is_empty()
    }
}
