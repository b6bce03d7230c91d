//! The inbox of one client: the messages from its pipe, and the deaths that concern it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{BoxFuture, ClientId, Message};
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use super::liveness::{Liveness, LocalClient, PipeReader};
use crate::store::{Inbox, message};

/// The inbox of a client of a file store.
#[derive(Debug)]
pub(crate) struct FileInbox {
    client: Arc<LocalClient>,
    pipe: PipeReader,
    /// The watched clients; `None` for a client whose death was reported.
    watches: HashMap<ClientId, Option<Sender>>,
    /// This field is dropped last: its drop checks whether somebody still has the client's pipe
    /// open.
    liveness: Arc<Liveness>,
}

impl FileInbox {
    pub(crate) fn new(liveness: Arc<Liveness>, client: Arc<LocalClient>) -> io::Result<Self> {
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
                let end = self.liveness.writer_to(&client.to_string());
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
