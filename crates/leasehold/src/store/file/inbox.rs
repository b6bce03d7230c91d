//! The inbox of one client: the messages from its pipe, and the deaths that concern it.

use std::collections::{HashMap, VecDeque};
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
    arrived: VecDeque<Message>,
    /// This field is dropped last: its drop checks whether somebody still has the client's pipe
    /// open.
    liveness: Arc<Liveness>,
}

impl FileInbox {
    pub(crate) fn new(liveness: Arc<Liveness>, client: Arc<LocalClient>) -> io::Result<Self> {
        let pipe = PipeReader::new(client.pipe.try_clone()?);
        let (watches, arrived) = (HashMap::new(), VecDeque::new());
        Ok(Self { client, pipe, watches, arrived, liveness })
    }

    /// Waits for something to happen. After an error, the waiter depends on its polls, as on a file
    /// system without pipes.
    async fn wait(&mut self) -> io::Result<()> {
        self.watch()?;
        if !self.arrived.is_empty() {
            return Ok(());
        }
        let Self { client, pipe, watches, arrived, .. } = self;
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
                arrived.push_back(message.unwrap_or(Message::Gap));
            }
            Some(client) = broken.next() => {
                let client = client?;
                drop(broken);
                // Each death is reported once. If the dead client could not be reaped, because
                // another process acts for it, asking again would not help.
                watches.insert(client, None);
                arrived.push_back(Message::Gap);
            }
            () = client.changed.notified() => {}
        }
        Ok(())
    }

    /// Watches the clients whose deaths concern this client now, and no others.
    fn watch(&mut self) -> io::Result<()> {
        let wanted = self.client.watched();
        self.watches.retain(|client, _| wanted.contains(client));
        for client in wanted {
            if self.watches.contains_key(&client) {
                continue;
            }
            let watch = match self.liveness.writer_to(&client.to_string()) {
                Ok(end) => Some(Sender::from_owned_fd(end)?),
                Err(Errno::NXIO) => {
                    self.arrived.push_back(Message::Gap);
                    None
                }
                Err(_) => None,
            };
            self.watches.insert(client, watch);
        }
        Ok(())
    }
}

impl Inbox for FileInbox {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                if let Some(message) = self.arrived.pop_front() {
                    return message;
                }
                if self.wait().await.is_err() {
                    return std::future::pending().await;
                }
            }
        })
    }
}
