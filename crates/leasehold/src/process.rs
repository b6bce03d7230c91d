//! The identity of this process: values that were made before a fork(2) belong to the parent.
//!
//! A child has copies of its parent's memory and descriptors, but only one of its threads. The
//! keeper's thread is not there, a lock that another thread had stays locked, and sockets and
//! tokio's epoll are shared with the parent. So a child uses nothing that its parent has made, and
//! drops none of it. Each process in a chain of forks has a number. Each call of a guard needs that
//! number, and so do five steps of an acquire and its release. So reading it must be cheap: a
//! handler of pthread_atfork(3) counts forks, and a process that has not been forked since reads
//! its number from memory. A forked process compares its id with the recorded ids. Nothing here
//! takes a lock, because the thread that had it may be in another process.

#[cfg(feature = "file")]
mod notes;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use leasehold_core::{StoreError, StoreErrorKind};

#[cfg(feature = "file")]
pub(crate) use self::notes::Note;

/// The largest number of processes in a chain, each the child of the one before.
const MOST: usize = 16;

/// The id of each process in the chain, and zero for processes that do not exist yet.
static IDS: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];

/// The number of the last process in the chain.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// The guards that tell each process in the chain that it is a child of the one before.
static FORKS: [OnceLock<forkguard::Guard>; MOST] = [const { OnceLock::new() }; MOST];

/// Declares that this process is a forked child, and closes the descriptors that it has inherited
/// from its parent's file stores. Descriptors that the child has replaced stay open; to find them,
/// this needs `/proc`. A child that uses leasehold need not call this function: the first call of
/// leasehold notices the fork. In a child that does not use leasehold, open pipes hide the death of
/// the parent from others: the parent's leases then last until their ttl is over. A child that was
/// made by a bare system call, without the C library, must call this function before it uses
/// leasehold.
///
/// Call it in children that a server forks in advance, and in `os.register_at_fork` of bindings. In
/// a process that was not forked it does nothing.
pub fn forked() {
    find_number();
}

/// The number of this process: zero for the first that uses leasehold, one more in each child;
/// [`MOST`] for a process past the end of the chain.
fn number() -> usize {
    let last = LAST.load(Ordering::Acquire);
    match FORKS[last].get() {
        Some(forks) if !forks.clone().detected_fork() => last,
        Some(_) | None => find_number(),
    }
}

/// Like [`number`], but searches for the id of this process.
fn find_number() -> usize {
    // The guard is made before the id is read, so that a fork in between is noticed.
    let forks = forkguard::new();
    let id = std::process::id();
    let mut number = LAST.load(Ordering::Acquire);
    loop {
        let noted = IDS[number].compare_exchange(0, id, Ordering::AcqRel, Ordering::Acquire);
        match noted {
            Ok(_) => {
                #[cfg(feature = "file")]
                notes::LIFELINES.close_of_parents(number);
                break;
            }
            Err(found) if found == id => break,
            Err(_) if number + 1 == MOST => return MOST,
            Err(_) => {
                number += 1;
                LAST.fetch_max(number, Ordering::AcqRel);
            }
        }
    }
    let _noted = FORKS[number].set(forks);
    number
}

/// The process in which a value was made. Language bindings use it, too.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct MadeIn(usize);

impl MadeIn {
    /// The current process.
    pub fn this() -> Self {
        Self(number())
    }

    /// Another process than this one.
    #[cfg(test)]
    pub(crate) fn another() -> Self {
        Self(MOST)
    }

    /// Whether the value was made in another process, from which this one was forked.
    pub fn is_another(self) -> bool {
        self.0 != number()
    }
}

/// A value for each process in the chain. Each process uses only its own value. Language bindings
/// use it, too.
#[doc(hidden)]
#[derive(Debug)]
pub struct PerProcess<T>([T; MOST]);

impl<T> PerProcess<T> {
    /// Makes it from one value for each process.
    pub const fn new(values: [T; MOST]) -> Self {
        Self(values)
    }

    /// The value of this process.
    ///
    /// # Errors
    ///
    /// If there are too many processes in the chain.
    pub fn this(&self) -> Result<&T, StoreError> {
        self.0.get(number()).ok_or_else(|| {
            let text = format!(
                "this process is the last of more than {MOST} that were forked one from the other: \
                 start it by exec"
            );
            StoreError::new(StoreErrorKind::Unsupported, text)
        })
    }

    /// The value of this process, and those of its parents.
    pub(crate) fn split_mut(&mut self) -> (Option<&mut T>, Vec<&mut T>) {
        let number = number();
        let (mut own, mut others) = (None, Vec::new());
        for (nth, value) in self.0.iter_mut().enumerate() {
            if nth == number {
                own = Some(value);
            } else {
                others.push(value);
            }
        }
        (own, others)
    }
}

impl<T: Default> Default for PerProcess<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| T::default()))
    }
}

/// Registers a descriptor that a forked child must close.
#[cfg(feature = "file")]
pub(crate) fn note_lifeline(descriptor: &impl std::os::fd::AsRawFd) -> Option<Note> {
    notes::LIFELINES.add_descriptor(number(), descriptor)
}

/// Registers a file that SQLite has open; `None` if too many are registered.
#[cfg(feature = "file")]
pub(crate) fn note_file(file: u64) -> Option<Note> {
    notes::FILES.add(number(), file)
}

/// Whether a process from which this one was forked had a file open at the fork.
#[cfg(feature = "file")]
pub(crate) fn is_open_in_parent(file: u64) -> bool {
    let number = number();
    (0..number).any(|parent| notes::FILES.has(parent, file))
}
