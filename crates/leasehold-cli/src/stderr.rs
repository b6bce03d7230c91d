//! The lines for stderr. If nobody reads stderr, a write blocks. So another thread writes, and
//! neither the renewals nor the end of the command wait for a reader.

use std::collections::VecDeque;
use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

/// How long a text keeps its caller, so that lines of the command do not overtake it: 100 ms.
const ATTENTION: Duration = Duration::from_millis(100);

/// How long the last texts keep this process from its end: 1 s.
const FAREWELL: Duration = Duration::from_secs(1);

/// The most texts that wait for a reader.
const MOST: usize = 64;

/// The texts that are not written yet. The first of them is being written.
static WAITING: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Notified when all texts are written.
static WRITTEN: Condvar = Condvar::new();

/// Writes a text, but returns soon if nobody reads it.
pub(crate) fn write(text: String) {
    let mut texts = waiting();
    // If too many wait, the newest takes the place of the one before: the last text says most.
    texts.truncate(MOST - 1);
    texts.push_back(text);
    if texts.len() == 1 {
        drop(texts);
        // Without a thread, this write may block, but the text is not lost.
        thread::Builder::new().spawn(write_all).map_or_else(|_| write_all(), drop);
        wait(ATTENTION);
    }
}

/// Lets the last texts be written, unless nobody reads them.
pub(crate) fn finish() {
    wait(FAREWELL);
}

fn wait(limit: Duration) {
    let _late = WRITTEN.wait_timeout_while(waiting(), limit, |texts| !texts.is_empty());
}

fn write_all() {
    // Otherwise `stty tostop` stops this process while its command has the terminal.
    let _unblocked = SigSet::from(Signal::SIGTTOU).thread_block();
    let first = || waiting().front().cloned();
    while let Some(text) = first() {
        // A stderr that cannot be written to is no reason to stop supervising the command.
        let _unheard = std::io::stderr().write_all(text.as_bytes());
        waiting().pop_front();
    }
    WRITTEN.notify_all();
}

fn waiting() -> MutexGuard<'static, VecDeque<String>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}
