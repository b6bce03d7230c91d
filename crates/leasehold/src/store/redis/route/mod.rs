//! Which server serves a key, and what to do when it says that it does not.

mod cluster;
mod finder;
mod one;
mod role;
mod sentinel;
mod switches;

use std::sync::Arc;

use leasehold_core::{Invalid, StoreError};
use redis::{PushInfo, ServerErrorKind, Value};
use tokio::sync::mpsc::UnboundedSender;

use self::cluster::Cluster;
use self::one::One;
use self::sentinel::Sentinel;
use super::connection::Link;
use super::dial::Dialer;
use super::roll::Entry;
use super::script::Script;
use super::url::{Address, Place, Settings};
use super::wire::Call;

/// How often a script is loaded for one call: 3 times, for a server whose scripts somebody flushes
/// in between.
pub(super) const LOAD_TRIES: u32 = 3;

/// The way to the servers of a store.
#[derive(Debug)]
pub(super) enum Route {
    /// The nodes of a cluster.
    Cluster(Cluster),
    /// One primary, always at the same address.
    One(One),
    /// The primary that sentinels name.
    Sentinel(Sentinel),
}

impl Route {
    /// The way to the place that a URL names, with its entry if it is a node of a quorum. Nothing
    /// is opened yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a file that the URL names cannot be used, or nothing leads to such a place.
    pub(super) fn new(settings: &Settings, entry: Option<Entry>) -> Result<Self, Invalid> {
        match &settings.place {
            Place::Cluster(seeds) => {
                let dialer = Arc::new(Dialer::new(settings)?);
                Ok(Self::Cluster(Cluster::new(dialer, seeds.clone())))
            }
            Place::One(address) => {
                let dialer = Arc::new(Dialer::new(settings)?.entered(entry));
                Ok(Self::One(One::new(dialer, address.clone())))
            }
            Place::Sentinel { sentinels, service } => {
                Ok(Self::Sentinel(Sentinel::new(settings, sentinels, service)?))
            }
            Place::Quorum(_) => {
                let why = format!(
                    "{}: it is a store of several servers, for locks only: open it with \
                     `Client::connect`",
                    settings.place
                );
                Err(Invalid::new("url", why))
            }
        }
    }

    /// Runs a script where its keys are served.
    pub(super) async fn evaluate(&self, call: &Call) -> Result<Value, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.evaluate(call).await,
            Self::One(one) => evaluate(&*one.link().await?, call).await,
            Self::Sentinel(sentinel) => sentinel.evaluate(call).await,
        }
    }

    /// The connections to all primaries, or why one cannot be reached.
    pub(super) async fn primaries(&self) -> Result<Vec<Result<Arc<Link>, StoreError>>, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.primaries().await,
            Self::One(one) => Ok(vec![one.link().await]),
            Self::Sentinel(sentinel) => Ok(vec![sentinel.primary().await]),
        }
    }

    /// The connection to the primary that serves a key.
    pub(super) async fn serving(&self, key: &[u8]) -> Result<Arc<Link>, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.serving(key).await,
            Self::One(one) => one.link().await,
            Self::Sentinel(sentinel) => sentinel.primary().await,
        }
    }

    /// A number of the server that serves a key: zero where there is only one.
    pub(super) fn shard(&self, key: impl FnOnce() -> Vec<u8>) -> u64 {
        match self {
            Self::Cluster(cluster) => cluster.shard(&key()),
            Self::One(_) | Self::Sentinel(_) => 0,
        }
    }

    /// Where to listen so that nothing takes a way round, if that is not one server alone.
    pub(super) fn posts(&self) -> Option<Vec<Address>> {
        match self {
            Self::Cluster(cluster) => Some(cluster.posts()),
            Self::One(_) | Self::Sentinel(_) => None,
        }
    }

    /// Opens a connection of its own on which the messages of all channels can be heard: to one of
    /// the [`posts`](Self::posts), or to any server.
    pub(super) async fn listen(
        &self,
        post: Option<&Address>,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<Link, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.listen(post, pushes).await,
            Self::One(one) => one.listen(pushes).await,
            Self::Sentinel(sentinel) => sentinel.listen(pushes).await,
        }
    }

    /// Asks whether a connection for messages still lives, and leads to where they are published.
    pub(super) async fn probe(&self, link: &Link) -> Result<(), StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.probe(link).await,
            Self::One(_) => link.ask(&redis::cmd("PING")).await.map(drop),
            Self::Sentinel(_) => role::expect_primary(link).await,
        }
    }
}

/// Runs a script, with whatever else must be so before what it grants counts.
async fn evaluate(link: &Link, call: &Call) -> Result<Value, StoreError> {
    match link.assured_for(call) {
        Some(assured) => assured.evaluate(link, call, false).await,
        None => run(link, call).await,
    }
}

/// Runs a script by its name; a server that does not know it, or has just forgotten it, is given
/// its text.
pub(super) async fn run(link: &Link, call: &Call) -> Result<Value, StoreError> {
    let command = call.command();
    for _ in 0..LOAD_TRIES {
        let value = link.send(&command).await?;
        if !is_unknown_script(&value) {
            return link.check(value);
        }
        load(link, call.script).await?;
    }
    link.ask(&command).await
}

/// Whether a server says that it does not know a script.
pub(super) fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::ServerError(refusal)
        if refusal.kind() == Some(ServerErrorKind::NoScript))
}

/// Gives a server the text of a script.
pub(super) async fn load(link: &Link, script: Script) -> Result<(), StoreError> {
    link.ask(redis::cmd("SCRIPT").arg("LOAD").arg(script.source())).await.map(drop)
}
