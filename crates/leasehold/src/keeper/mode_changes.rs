//! The mode of a lease, and the order of its changes.

use leasehold_core::Mode;

/// What a lease is held as.
///
/// A request that was given up may still be under way when the next one is made. Each has a number
/// of its own, and an answer counts only while no later one was asked for: so what is believed here
/// is what the store comes to, in whatever order the requests arrive there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModeChanges {
    pub(super) mode: Mode,
    /// What it is while it is not the writer: a reader, or an upgradable one.
    reader: Mode,
    /// The number of the change that made it so.
    pub(super) change: u64,
    /// The last number that was drawn.
    drawn: u64,
}

impl ModeChanges {
    pub(super) fn granted(mode: Mode) -> Self {
        let reader = if mode == Mode::Upgradable { mode } else { Mode::Shared };
        Self { mode, reader, change: 0, drawn: 0 }
    }

    /// Whether any change was asked for since the grant.
    pub(super) fn was_changed(&self) -> bool {
        self.drawn > 0
    }

    /// The number with which to ask for the writer; `None` for who is the writer already.
    pub(super) fn begin_upgrade(&mut self) -> Option<u64> {
        if self.mode == Mode::Exclusive {
            return None;
        }
        self.drawn += 1;
        Some(self.drawn)
    }

    /// The store has made it the writer, by the request with this number. False if another was
    /// made since, of which nothing is known yet.
    pub(super) fn upgraded(&mut self, number: u64) -> bool {
        let is_last = self.drawn == number;
        if is_last {
            (self.mode, self.change) = (Mode::Exclusive, number);
        }
        is_last
    }

    /// Makes it a reader from now on, and gives the number to say so with. One that was upgradable
    /// before it became the writer is that again, and one that is upgradable is so no more.
    pub(super) fn begin_downgrade(&mut self) -> (Mode, u64) {
        if self.mode == Mode::Upgradable {
            self.reader = Mode::Shared;
        }
        if self.mode != self.reader || self.drawn != self.change {
            self.drawn += 1;
            (self.mode, self.change) = (self.reader, self.drawn);
        }
        (self.mode, self.change)
    }

    /// As what kind of reader the request with this number must be taken back, now that nobody
    /// waits for its answer: not at all if it was believed, nor if a later one has taken its place.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Mode> {
        let gives_up = self.mode.is_reader() && self.drawn == number;
        if gives_up {
            self.change = number;
        }
        gives_up.then_some(self.mode)
    }
}
