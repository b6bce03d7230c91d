//! What a process registers for its forked children: the descriptors and files of its file stores.

use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of registered descriptors of a process, and of its registered files.
const MOST: usize = 1024;

/// Descriptors that hide the end of their process from others, as long as a child has them open.
pub(super) static LIFELINES: Notes = Notes::new();

/// Files that SQLite has open.
pub(super) static FILES: Notes = Notes::new();

/// The registered descriptors, or the registered files. An entry has the 56-bit number of a
/// descriptor or file in its low bits, and the number of its process above them.
#[derive(Debug)]
pub(super) struct Notes([AtomicU64; MOST]);

/// A descriptor or file that is registered until this value is dropped.
#[derive(Debug)]
pub(crate) struct Note(&'static AtomicU64);

impl Notes {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MOST])
    }

    /// Registers a descriptor or file of a process; `None` if too many are registered.
    pub(super) fn add(&'static self, process: usize, thing: u64) -> Option<Note> {
        let entry = entry(process, thing);
        let free = self.0.iter().find(|slot| {
            slot.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        free.map(Note)
    }

    /// Whether a descriptor or file of a process is registered.
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

/// The entry of a descriptor or file. Its highest bit is set, so that no entry is zero.
fn entry(process: usize, thing: u64) -> u64 {
    1 << 63 | (process as u64) << 56 | thing & ((1 << 56) - 1)
}

/// Closes the lifelines of the parents. They are never used again: they belong to values that a
/// child neither uses nor drops.
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

/// On other systems, the death of a holder is noticed once its children have ended, too, or once
/// its lease has ended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn close(_descriptor: i32) {}
