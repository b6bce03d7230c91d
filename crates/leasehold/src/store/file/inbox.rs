//! What arrives through pipes: the messages to a client, with the deaths that concern it, and the
//! news of a name.
//!
//! A publisher writes to every pipe whose file name begins with the mark of the lock's name.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{BoxFuture, ClientId, LockName, Message};
use rustix::io::Errno;
use tokio::io::{AsyncBufReadExt as _, BufReader, Interest, Lines};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::liveness::{Liveness, LocalClient};
use super::users::hash;
use crate::store::{Inbox, Subscription, message};

/// The size of the smallest pipe: one page. On Linux, a pipe writes a line of at most this length
/// at once (pipe(7)), so lines of several writers do not mix.
const PAGE: usize = 4096;

/// If a read returns this many bytes, the pipe may have been too full for another message to its
/// client: such a line has less than 128 bytes. A pipe that is too full refuses the line.
const NEARLY_FULL: usize = PAGE - 128;

/// The reading end of a pipe of this process, registered with the runtime that first reads it.
#[derive(Debug)]
struct PipeReader {
    pipe: OwnedFd,
    lines: Option<Lines<BufReader<Receiver>>>,
    /// Lines are perhaps missing after the last one.
    is_gap: bool,
}

impl PipeReader {
    fn new(pipe: OwnedFd) -> Self {
        Self { pipe, lines: None, is_gap: false }
    }

    /// Waits for the next line; `None` stands for lines that are perhaps missing. If the runtime
    /// has no I/O driver, or no descriptor is left, nothing arrives, and asking has to do.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_gap) {
            return None;
        }
        match self.line().await {
            Ok(Some(line)) => Some(line),
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    async fn line(&mut self) -> io::Result<Option<String>> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            none => {
                let receiver = Receiver::from_owned_fd(self.pipe.try_clone()?)?;
                none.insert(BufReader::with_capacity(PAGE, receiver).lines())
            }
        };
        let line = lines.next_line().await?;
        let rest = lines.get_ref().buffer().len();
        self.is_gap = line.as_ref().is_some_and(|line| line.len() + rest >= NEARLY_FULL);
        Ok(line)
    }
}

/// The inbox of a client of a file store.
#[derive(Debug)]
pub(crate) struct FileInbox {
    client: Arc<LocalClient>,
    pipe: PipeReader,
    /// The watched clients; `None` for a client whose death was reported.
    watches: HashMap<ClientId, Option<Sender>>,
    liveness: Arc<Liveness>,
}

impl FileInbox {
    /// Opens the inbox of a client. The caller has its turn.
    pub(crate) fn open(liveness: &Arc<Liveness>, client: ClientId) -> io::Result<Self> {
        let (client, liveness) = (liveness.register(client)?, Arc::clone(liveness));
        let pipe = PipeReader::new(client.pipe.try_clone()?);
        Ok(Self { client, pipe, watches: HashMap::new(), liveness })
    }

    /// Waits for a message, or for a death.
    async fn wait(&mut self) -> io::Result<Message> {
        loop {
            if self.watch()? {
                return Ok(Message::Gap);
            }
            let Self { client, pipe, watches, .. } = self;
            let mut broken: FuturesUnordered<_> = watches
                .iter()
                .filter_map(|(client, end)| {
                    let end = end.as_ref()?;
                    Some(async move { end.ready(Interest::ERROR).await.map(|_| *client) })
                })
                .collect();
            tokio::select! {
                line = pipe.next() => {
                    let message = line.and_then(|line| message::decode(&line));
                    return Ok(message.unwrap_or(Message::Gap));
                }
                Some(client) = broken.next() => {
                    let client = client?;
                    drop(broken);
                    // Each death is reported once. If the dead client could not be reaped, because
                    // another process acts for it, asking again would not help.
                    watches.insert(client, None);
                    return Ok(Message::Gap);
                }
                () = client.changed.notified() => {}
            }
        }
    }

    /// Watches the clients whose deaths concern this client now, and no others. Returns whether one
    /// of them has died before.
    fn watch(&mut self) -> io::Result<bool> {
        let wanted = self.client.watched();
        self.watches.retain(|client, _| wanted.contains(client));
        let mut has_died = false;
        for client in wanted {
            if let Entry::Vacant(watch) = self.watches.entry(client) {
                let end = self.liveness.side.writer_to(&client.to_string());
                has_died |= end.as_ref().err() == Some(&Errno::NXIO);
                watch.insert(end.ok().map(Sender::from_owned_fd).transpose()?);
            }
        }
        Ok(has_died)
    }
}

impl Inbox for FileInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            match self.wait().await {
                Ok(message) => message,
                // No descriptor is left: the waiter asks now and then.
                Err(_) => std::future::pending().await,
            }
        })
    }
}

/// The beginning of the file names of listeners' pipes. Those of clients begin with a hex digit.
const NEWS: &str = "news-";

/// The beginning of the file names of the pipes for a name. Two names may share a beginning, so
/// each line begins with the name that it is about, and a tab.
pub(crate) fn mark(name: &LockName) -> String {
    format!("{NEWS}{:016x}-", hash(name.as_str().as_bytes()))
}

/// Writes to all listeners of a name.
///
/// # Cost
///
/// One reading of the directory, which has an entry per client and listener.
pub(crate) fn publish(liveness: &Liveness, name: &LockName, words: &str) -> io::Result<()> {
    let line = format!("{}\t{words}\n", name.as_str());
    // No name and value that leasehold allows are longer.
    if line.len() <= PAGE {
        let pipes = liveness.side.files(&mark(name))?;
        pipes.iter().for_each(|pipe| liveness.side.write(pipe, &line));
    }
    Ok(())
}

/// A subscription to the news of one name.
pub(crate) struct FileSubscription {
    name: LockName,
    file: String,
    pipe: PipeReader,
    liveness: Arc<Liveness>,
}

impl FileSubscription {
    /// Subscribes from now on. The caller has its turn.
    pub(crate) fn open(liveness: &Arc<Liveness>, name: LockName) -> io::Result<Self> {
        let file = format!("{}{:016x}", mark(&name), RandomState::new().hash_one(&name));
        let pipe = PipeReader::new(liveness.side.make_pipe(&file)?);
        Ok(Self { name, file, pipe, liveness: Arc::clone(liveness) })
    }
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
        // If the pipe cannot be removed, tidying does that.
        self.liveness.side.remove(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_come_out_of_a_pipe_one_by_one_and_a_full_page_may_be_a_gap() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&reader, true).unwrap();
        let mut reader = PipeReader::new(reader);
        let write = |text: &str| assert!(rustix::io::write(&writer, text.as_bytes()).is_ok());
        let line = |text: &str| Some(text.to_owned());
        write("one\n\ntwo\nth");
        for expected in ["one", "", "two"] {
            assert_eq!(reader.next().await, line(expected));
        }
        // What was read of a line outlives the future that read it.
        assert_eq!(reader.next().now_or_never(), None);
        write("ree\n");
        assert_eq!(reader.next().await, line("three"));
        let long = "x".repeat(NEARLY_FULL);
        write(&format!("{long}\n"));
        assert_eq!(reader.next().await, line(&long));
        assert_eq!(reader.next().await, None);
        write("four\n");
        assert_eq!(reader.next().await, line("four"));
    }
}
