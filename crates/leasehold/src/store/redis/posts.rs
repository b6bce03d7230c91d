//! The inbox of a client in a cluster: it listens at every primary.
//!
//! What is published at one node reaches all, so listening at one would do. But it would come by
//! the bus: one more hop, and now and then 40 ms. A hand-over is published by the primary that
//! serves the name, and whoever listens there hears of it at once. The same message then comes
//! again from the others, and is not needed: a grant is taken once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, pending, select_all};
use leasehold_core::{BoxFuture, Message, StoreError};
use tokio::time::timeout;

use super::route::Route;
use super::url::Address;
use super::wake::Channel;
use super::{Notes, reply};
use crate::store::Inbox;

/// How often it is looked whether the primaries are still the same: every second, which is how
/// often waiters ask by themselves.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where the messages of one client arrive, from all primaries.
pub(super) struct Posts {
    route: Arc<Route>,
    notes: Arc<Notes>,
    channel: Vec<u8>,
    open: Vec<Channel>,
}

impl Posts {
    /// Subscribes at these; once this has returned, at least one of them knows of it, and the
    /// others say so by a gap.
    pub(super) async fn open(
        route: Arc<Route>,
        notes: Arc<Notes>,
        channel: Vec<u8>,
        posts: Vec<Address>,
    ) -> Result<Self, StoreError> {
        let mut inbox = Self { route, notes, channel, open: Vec::new() };
        inbox.follow(posts);
        let mut outcomes = join_all(inbox.open.iter_mut().map(Channel::open)).await;
        if !outcomes.is_empty() && outcomes.iter().all(Result::is_err) {
            outcomes.swap_remove(0)?;
        }
        Ok(inbox)
    }

    /// Listens at these from now on.
    fn follow(&mut self, posts: Vec<Address>) {
        self.open.retain(|channel| channel.post().is_some_and(|post| posts.contains(post)));
        for post in posts {
            if self.open.iter().all(|channel| channel.post() != Some(&post)) {
                let (route, notes) = (Arc::clone(&self.route), Arc::clone(&self.notes));
                self.open.push(Channel::new(route, notes, self.channel.clone(), Some(post)));
            }
        }
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        loop {
            self.follow(self.route.posts().unwrap_or_default());
            let received = async {
                match self.open.is_empty() {
                    true => pending().await,
                    false => {
                        let channels = self.open.iter_mut();
                        select_all(channels.map(|channel| Box::pin(channel.receive()))).await.0
                    }
                }
            };
            if let Ok(payload) = timeout(LOOK_EVERY, received).await {
                return payload;
            }
        }
    }
}

impl Inbox for Posts {
    fn next(&mut self) -> BoxFuture<'_, Message> {
        Box::pin(async {
            loop {
                let Some(payload) = self.receive().await else { return Message::Gap };
                if let Some(message) = reply::message(&payload) {
                    return message;
                }
            }
        })
    }
}
