//! Subscriptions to the news of names. Each subscription has a named pipe, beside the pipes of the
//! clients.
//!
//! A publisher writes to every pipe whose file name begins with the mark of the lock's name. It
//! removes the pipes that have no reader left. Tidying removes such pipes of all names.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use leasehold_core::{BoxFuture, LockName};
use rustix::fs::renameat;
use rustix::io::Errno;

use super::liveness::{Liveness, PAGE, PipeReader};
use super::users::hash;
use crate::store::Subscription;

/// The beginning of the file names of listeners' pipes. Those of clients begin with a hex digit.
const PREFIX: &str = "news-";

/// Writes to all listeners of a name.
///
/// # Errors
///
/// If the directory cannot be read.
///
/// # Cost
///
/// One reading of the directory, which has an entry per client and listener.
pub(crate) fn publish(liveness: &Liveness, name: &LockName, words: &str) -> io::Result<()> {
    let line = format!("{}\t{words}\n", name.as_str());
    if line.len() > PAGE {
        return Ok(()); // longer than any name and value that leasehold allows
    }
    visit(liveness, &mark(name), |pipe| {
        // If there is no room, the listener is far behind, and notices that by itself.
        let _ = rustix::io::write(pipe, line.as_bytes());
    })
}

/// Removes the pipes of listeners that were killed, whatever name they listened to.
///
/// # Errors
///
/// If the directory cannot be read.
pub(crate) fn remove_unread(liveness: &Liveness) -> io::Result<()> {
    visit(liveness, PREFIX, |_| {})
}

/// Opens the pipes whose file names begin with `beginning`, and removes those without a reader.
fn visit(liveness: &Liveness, beginning: &str, each: impl Fn(&OwnedFd)) -> io::Result<()> {
    for pipe in liveness.files(beginning)? {
        match liveness.writer_to(&pipe) {
            Ok(end) => each(&end),
            Err(Errno::NXIO) => liveness.remove(&pipe),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Subscribes from now on.
///
/// # Errors
///
/// The system's error, if no pipe can be made or no descriptor is left.
pub(crate) fn subscribe(liveness: &Arc<Liveness>, name: &LockName) -> io::Result<FileSubscription> {
    let number = RandomState::new().hash_one(name);
    let (file, hidden) = (format!("{}{number:016x}", mark(name)), format!("new-{number:016x}"));
    let pipe = liveness.make_pipe(&hidden);
    // The pipe gets its name once a listener reads it: before that, others would take it for the
    // pipe of a dead listener.
    let directory = liveness.directory();
    if pipe.is_err() || renameat(directory, &hidden, directory, &file).is_err() {
        liveness.remove(&hidden);
    }
    let (name, pipe) = (name.clone(), PipeReader::new(pipe?));
    Ok(FileSubscription { name, file, pipe, liveness: Arc::clone(liveness) })
}

/// The beginning of the file names of the pipes for a name. Two names may share a beginning, so
/// each line begins with the name that it is about, and a tab.
pub(crate) fn mark(name: &LockName) -> String {
    format!("{PREFIX}{:016x}-", hash(name.as_str().as_bytes()))
}

/// A subscription to the news of one name.
pub(crate) struct FileSubscription {
    name: LockName,
    file: String,
    pipe: PipeReader,
    liveness: Arc<Liveness>,
}

impl Subscription for FileSubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            loop {
                let line = self.pipe.next().await?;
                let words = line.strip_prefix(self.name.as_str());
                if let Some(words) = words.and_then(|words| words.strip_prefix('\t')) {
                    return Some(words.to_owned());
                }
            }
        })
    }
}

impl Drop for FileSubscription {
    fn drop(&mut self) {
        // If the pipe cannot be removed, the next publisher or tidying removes it.
        self.liveness.remove(&self.file);
    }
}
