//! What a process registers for its forked children: the descriptors and files of its file stores.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// The largest number of registered descriptors of a process, and of its registered files.
const MOST: usize = 1024;

/// Descriptors that hide the end of their process from others, as long as a child has them open.
pub(super) static LIFELINES: Notes = Notes::new();

/// Files that SQLite has open.
pub(super) static FILES: Notes = Notes::new();

/// The registered descriptors, or the registered files.
#[derive(Debug)]
pub(super) struct Notes([Slot; MOST]);

/// A place for a registered descriptor or file.
#[derive(Debug)]
struct Slot {
    /// The 56-bit number of the descriptor or file in the low bits, and the number of its process
    /// above them. Zero if the place is free.
    entry: AtomicU64,
    /// The file to which a descriptor leads.
    leads_to: [AtomicU64; 2],
}

/// A descriptor or file that is registered until this value is dropped.
#[derive(Debug)]
pub(crate) struct Note(&'static Slot);

impl Slot {
    const fn new() -> Self {
        Self { entry: AtomicU64::new(0), leads_to: [const { AtomicU64::new(0) }; 2] }
    }
}

impl Notes {
    const fn new() -> Self {
        Self([const { Slot::new() }; MOST])
    }

    /// Registers a descriptor of a process; `None` if too many are registered, or if a child could
    /// not close it anyway.
    pub(super) fn add_descriptor(
        &'static self,
        process: usize,
        descriptor: &impl AsRawFd,
    ) -> Option<Note> {
        let descriptor = descriptor.as_raw_fd();
        let file = file_of(descriptor)?;
        let note = self.add(process, u64::try_from(descriptor).ok()?)?;
        // A child that is forked before this does not close the descriptor, the same as a child
        // that is forked before the entry is made.
        for (part, noted) in file.into_iter().zip(&note.0.leads_to) {
            noted.store(part, Ordering::Release);
        }
        Some(note)
    }

    /// Registers a descriptor or file of a process; `None` if too many are registered.
    pub(super) fn add(&'static self, process: usize, thing: u64) -> Option<Note> {
        let entry = entry(process, thing);
        let free = self.0.iter().find(|slot| {
            slot.entry.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        free.map(Note)
    }

    /// Whether a descriptor or file of a process is registered.
    pub(super) fn has(&self, process: usize, thing: u64) -> bool {
        let wanted = entry(process, thing);
        self.0.iter().any(|slot| slot.entry.load(Ordering::Acquire) == wanted)
    }

    /// Closes the descriptors of the parents. They are never used again: they belong to values that
    /// a child neither uses nor drops. A child may have closed them itself, and its own files may
    /// have their numbers now. Such files stay open.
    pub(super) fn close_of_parents(&self, process: usize) {
        for Slot { entry, leads_to } in &self.0 {
            let noted = entry.load(Ordering::Acquire);
            let (of, descriptor) = ((noted >> 56 & 0x7f) as usize, (noted & 0xffff_ffff) as RawFd);
            let is_parents = noted != 0 && of < process && entry.swap(0, Ordering::AcqRel) == noted;
            let file = || leads_to.each_ref().map(|part| part.load(Ordering::Acquire));
            if is_parents && file_of(descriptor) == Some(file()) {
                close(descriptor);
            }
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.0.entry.store(0, Ordering::Release);
    }
}

/// The entry of a descriptor or file. Its highest bit is set, so that no entry is zero.
fn entry(process: usize, thing: u64) -> u64 {
    1 << 63 | (process as u64) << 56 | thing & ((1 << 56) - 1)
}

/// The device and the number of the file to which a descriptor leads; `None` without `/proc`.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn file_of(descriptor: RawFd) -> Option<[u64; 2]> {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    // By its path, because a number that may be closed cannot be used without `unsafe`. A child
    // that was just forked must not allocate memory.
    let mut path = [0; 32];
    write!(&mut path[..], "/proc/self/fd/{descriptor}").ok()?;
    let length = path.iter().position(|byte| *byte == 0)?;
    let found = std::fs::metadata(std::str::from_utf8(&path[..length]).ok()?).ok()?;
    Some([found.dev(), found.ino()])
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn close(descriptor: RawFd) {
    let _ = nix::unistd::close(descriptor);
}

/// On other systems, the death of a holder is noticed once its children have ended, too, or once
/// its lease has ended.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn file_of(_descriptor: RawFd) -> Option<[u64; 2]> {
    None
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn close(_descriptor: RawFd) {}

#[cfg(all(test, any(target_os = "linux", target_os = "android")))]
mod tests {
    use std::os::fd::{IntoRawFd as _, OwnedFd};

    use super::*;

    static NOTES: Notes = Notes::new();

    #[test]
    fn a_child_keeps_its_own_file_under_the_number_of_a_descriptor_that_it_has_closed() {
        let [lifeline, own] = [(); 2].map(|()| tempfile::tempfile().unwrap());
        let _note = NOTES.add_descriptor(0, &lifeline).unwrap();
        let mut reused = OwnedFd::from(lifeline);
        rustix::io::dup2(&own, &mut reused).unwrap();
        let number = reused.into_raw_fd();
        NOTES.close_of_parents(1);
        assert_eq!(file_of(number), file_of(own.as_raw_fd()));
        close(number);
    }
}
