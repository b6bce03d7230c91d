//! The inbox of one client: the messages from its pipe, and the deaths that concern it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{BoxFuture, ClientId, Message};
use tokio::io::Interest;
use tokio::net::unix::pipe::{Receiver, Sender};

use super::liveness::{ClientState, FRAME, Liveness, LocalClient, decode};
use crate::store::Inbox;

/// The largest number of bytes in one read: as many whole messages as fit into the smallest
/// possible pipe, which has one page.
const READ: usize = 4096 / FRAME * FRAME;

/// The inbox of a client of a file store.
#[derive(Debug)]
pub(crate) struct FileInbox {
    client: Arc<LocalClient>,
    /// The pipe, registered with the runtime that first asks for a message.
    pipe: Option<Receiver>,
    /// The watched clients; `None` for a client whose death was reported.
    watches: HashMap<ClientId, Option<Sender>>,
    arrived: VecDeque<Message>,
    /// This field is dropped last: its drop checks whether somebody still has the client's pipe
    /// open.
    liveness: Arc<Liveness>,
}

/// The events for which an inbox wakes.
enum InboxEvent {
    Broken(ClientId),
    Changed,
    Readable,
}

impl FileInbox {
    pub(crate) fn new(liveness: Arc<Liveness>, client: Arc<LocalClient>) -> Self {
        let (watches, arrived) = (HashMap::new(), VecDeque::new());
        Self { client, pipe: None, watches, arrived, liveness }
    }

    /// Waits for something to happen. An error comes from the runtime: it has no I/O driver, or no
    /// descriptor is left. The waiter then depends on its polls, as on a file system without pipes.
    async fn wait(&mut self) -> io::Result<()> {
        self.watch()?;
        if !self.arrived.is_empty() {
            return Ok(());
        }
        match self.event().await? {
            InboxEvent::Broken(client) => {
                // Each death is reported once. If the dead client could not be reaped, because
                // another process acts for it, asking again would not help.
                self.watches.insert(client, None);
                self.arrived.push_back(Message::Gap);
            }
            InboxEvent::Changed => {}
            InboxEvent::Readable => self.read()?,
        }
        Ok(())
    }

    async fn event(&mut self) -> io::Result<InboxEvent> {
        let pipe = match &mut self.pipe {
            Some(pipe) => pipe,
            none => none.insert(Receiver::from_owned_fd(self.client.pipe.try_clone()?)?),
        };
        let mut broken: FuturesUnordered<_> = self
            .watches
            .iter()
            .filter_map(|(client, end)| {
                let end = end.as_ref()?;
                Some(async move { end.ready(Interest::ERROR).await.map(|_| *client) })
            })
            .collect();
        tokio::select! {
            ready = pipe.readable() => ready.map(|_| InboxEvent::Readable),
            Some(client) = broken.next() => client.map(InboxEvent::Broken),
            () = self.client.changed.notified() => Ok(InboxEvent::Changed),
        }
    }

    /// Watches the clients whose deaths concern this client now, and no others.
    fn watch(&mut self) -> io::Result<()> {
        let wanted = self.client.watched();
        self.watches.retain(|client, _| wanted.contains(client));
        for client in wanted {
            if self.watches.contains_key(&client) {
                continue;
            }
            let watch = match self.liveness.state_of(client) {
                ClientState::Alive(end) => Some(Sender::from_owned_fd(end)?),
                ClientState::Dead => {
                    self.arrived.push_back(Message::Gap);
                    None
                }
                ClientState::Unknown => None,
            };
            self.watches.insert(client, watch);
        }
        Ok(())
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; READ];
        let read = pipe.try_read(&mut buffer);
        let length = match read {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        self.arrived.extend(buffer[..length].chunks(FRAME).map(decode));
        if length == READ {
            // The pipe may have been full, and a full pipe turns messages away.
            self.arrived.push_back(Message::Gap);
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
