//! Subscriptions to the news of names. Each subscription has a named pipe, beside the pipes of the
//! clients.
//!
//! A publisher writes to every pipe whose file name begins with the mark of the lock's name. It
//! removes the pipes that have no reader left. Tidying removes such pipes of all names.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use leasehold_core::{BoxFuture, LockName};
use rustix::fs::renameat;
use rustix::io::Errno;

use super::liveness::{Liveness, PipeReader};
use super::users::hash;
use crate::store::Subscription;

/// The beginning of the file names of listeners' pipes. Those of clients begin with a hex digit.
const PREFIX: &str = "news-";

/// The largest size of a message with its head, in bytes: the size that a pipe on Linux writes
/// atomically (pipe(7)), so that messages of several publishers do not mix.
const MAX_FRAME: usize = 4096;

/// The number of bytes before the name and the words: the length of both together, and the length
/// of the name.
const HEAD: usize = 4;

/// The size of a pipe on Linux, in bytes. If a read returns a page or more, the pipe was perhaps
/// nearly full before, and a full pipe refuses messages.
const PIPE: usize = 64 * 1024;

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
    let Some(frame) = encode(name, words) else { return Ok(()) };
    visit(liveness, &mark(name), |pipe| {
        // If there is no room, the listener is far behind, and notices that by itself.
        let _ = rustix::io::write(pipe, &frame);
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
    let mut number = [0; 16];
    getrandom::fill(&mut number).map_err(|error| io::Error::other(error.to_string()))?;
    let number = u128::from_ne_bytes(number);
    let (file, hidden) = (format!("{}{number:032x}", mark(name)), format!("new-{number:032x}"));
    liveness.make_pipe(&hidden)?;
    let pipe = liveness.open_pipe(&hidden);
    // The pipe gets its name once a listener reads it: before that, others would take it for the
    // pipe of a dead listener.
    let directory = liveness.directory();
    if pipe.is_err() || renameat(directory, &hidden, directory, &file).is_err() {
        liveness.remove(&hidden);
    }
    Ok(FileSubscription {
        name: name.clone(),
        file,
        pipe: PipeReader::new(pipe?),
        bytes: Vec::new(),
        arrived: VecDeque::new(),
        liveness: Arc::clone(liveness),
    })
}

/// The beginning of the file names of the pipes for a name. Two names may share a beginning, so
/// each message has the name that it is about.
pub(crate) fn mark(name: &LockName) -> String {
    format!("{PREFIX}{:016x}-", hash(name.as_str().as_bytes()))
}

/// A subscription to the news of one name.
pub(crate) struct FileSubscription {
    name: LockName,
    file: String,
    pipe: PipeReader,
    /// Bytes that were read and not yet decoded.
    bytes: Vec<u8>,
    arrived: VecDeque<Option<String>>,
    liveness: Arc<Liveness>,
}

impl FileSubscription {
    async fn wait(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; PIPE];
        let length = self.pipe.read(&mut buffer).await?;
        self.bytes.extend(&buffer[..length]);
        while let Some((about, words, rest)) = decode(&self.bytes) {
            if about == self.name.as_str().as_bytes() {
                self.arrived.push_back(String::from_utf8(words.to_vec()).ok());
            }
            self.bytes = rest.to_vec();
        }
        if length >= MAX_FRAME {
            self.arrived.push_back(None);
        }
        Ok(())
    }
}

impl Subscription for FileSubscription {
    fn next(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async {
            loop {
                if let Some(news) = self.arrived.pop_front() {
                    return news;
                }
                // Without an I/O driver or a descriptor, nothing arrives, as on a file system
                // without pipes. Listeners also ask the store themselves.
                if self.wait().await.is_err() {
                    return std::future::pending().await;
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

fn encode(name: &LockName, words: &str) -> Option<Vec<u8>> {
    let name = name.as_str().as_bytes();
    let length = name.len() + words.len();
    if HEAD + length > MAX_FRAME {
        return None; // longer than any name and value that leasehold allows
    }
    let head = [length as u16, name.len() as u16].map(u16::to_le_bytes);
    Some([head.as_flattened(), name, words.as_bytes()].concat())
}

/// The name, the words and the rest after them; `None` if the message is not complete yet.
fn decode(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let number =
        |at| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let (length, of_name) = (number(0)?, number(2)?);
    let both = bytes.get(HEAD..HEAD + length)?;
    let (name, words) = both.split_at(of_name.min(length));
    Some((name, words, &bytes[HEAD + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_come_out_of_the_pipe_one_by_one_as_they_were_told() {
        let name = LockName::new("a").unwrap();
        let told = ["leads 1 x", "", "left 1"];
        let bytes: Vec<u8> = told.iter().flat_map(|words| encode(&name, words).unwrap()).collect();
        let mut rest = &bytes[..];
        for words in told {
            let (about, heard, more) = decode(rest).unwrap();
            assert_eq!((about, heard), (&b"a"[..], words.as_bytes()));
            rest = more;
        }
        assert!(rest.is_empty() && decode(&bytes[..bytes.len() - 1]).is_some());
        assert!(decode(&bytes[..3]).is_none() && decode(&bytes[..HEAD]).is_none());
    }

    #[test]
    fn the_longest_name_and_value_fit_a_pipe() {
        let name = LockName::new("n".repeat(leasehold_core::name::MAX_NAME_BYTES)).unwrap();
        assert!(encode(&name, &"v".repeat(2 * leasehold_core::holder::MAX_INFO_BYTES)).is_some());
    }
}
