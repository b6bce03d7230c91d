//! Notes for a forked child: the descriptors and files that its parent has of file stores.

use std::sync::atomic::{AtomicU64, Ordering};

/// Most notes of one kind that a process can have.
const MOST: usize = 1024;

/// Descriptors that keep others from seeing that their process has ended.
pub(super) static LIFELINES: Notes = Notes::new();

/// Files that SQLite has open.
pub(super) static FILES: Notes = Notes::new();

/// Things of one kind: a number of 56 bits for each, below that of the process that has it.
#[derive(Debug)]
pub(super) struct Notes([AtomicU64; MOST]);

/// A thing that is noted until this is dropped.
#[derive(Debug)]
pub(crate) struct Note(&'static AtomicU64);

impl Notes {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MOST])
    }

    /// Notes a thing of a process; `None` if there are too many.
    pub(super) fn add(&'static self, process: usize, thing: u64) -> Option<Note> {
        let entry = entry(process, thing);
        let free = self.0.iter().find(|slot| {
            slot.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        free.map(Note)
    }

    /// Whether a thing of a process is noted.
    pub(super) fn has(&self, process: usize, thing: u64) -> bool {
        let wanted = entry(process, thing);
        self.0.iter().any(|slot| slot.load(Ordering::Acquire) == wanted)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// The highest bit is set, so that none is zero.
fn entry(process: usize, thing: u64) -> u64 {
    1 << 63 | (process as u64) << 56 | thing & ((1 << 56) - 1)
}

/// The descriptors that are closed here are never used again: they belong to values that a child
/// neither uses nor drops.
pub(super) fn close_lifelines_of_parents(process: usize) {
    for slot in &LIFELINES.0 {
        let noted = slot.load(Ordering::Acquire);
        let (of, descriptor) = ((noted >> 56 & 0x7f) as usize, noted & 0xffff_ffff);
        if noted != 0 && of < process && slot.swap(0, Ordering::AcqRel) == noted {
            close(descriptor as i32);
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn close(descriptor: i32) {
    let _ = nix::unistd::close(descriptor);
}

/// Elsewhere a killed holder is noticed when its children have ended, too, or its lease.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn close(_descriptor: i32) {}
