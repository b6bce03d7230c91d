//! Finds the server that serves a key, and reacts if that server says that it does not.

pub(super) mod cluster;
mod pool;
pub(super) mod role;
mod sentinel;

use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use leasehold_core::{InvalidInput, StoreError};

use self::cluster::Cluster;
pub(crate) use self::pool::Opening;
use self::pool::{Opened, Pool};
use self::sentinel::Sentinel;
use self::sentinel::discovery::Discovery;
use crate::mutex::Mutex;
use crate::process::PerProcess;
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::call::Call;
use crate::store::redis::connection::dial::{Admission, Dialer};
use crate::store::redis::connection::pushes::PushSender;
use crate::store::redis::durability::{Durability, ServerDialer};
use crate::store::redis::options::{Address, RedisOptions, Servers};

/// Routes requests to the servers of a store.
#[derive(Debug)]
pub(crate) enum Topology {
    /// The nodes of a cluster.
    Cluster(Cluster),
    /// One primary, always at the same address.
    Standalone(Address, Pool<ServerDialer>),
    /// The primary that sentinels name.
    Sentinel(Sentinel),
}

/// The topologies that clients of this process use.
static SHARED: PerProcess<Mutex<Shared>> = PerProcess::new();

type Shared = Vec<(RedisOptions, Weak<Topology>)>;

impl Topology {
    /// The topology of all clients of this process with these settings, which thus share their
    /// connections for requests.
    ///
    /// # Errors
    ///
    /// Those of [`Topology::new`].
    pub(crate) fn shared(settings: &RedisOptions) -> Result<Arc<Self>, InvalidInput> {
        let mut shared = SHARED.this().lock();
        shared.retain(|(_, topology)| topology.strong_count() > 0);
        let found = shared.iter().find(|(of, _)| of == settings);
        if let Some(topology) = found.and_then(|(_, topology)| topology.upgrade()) {
            return Ok(topology);
        }
        let made = Arc::new(Self::new(settings, Durability::new(settings), None)?);
        shared.push((settings.clone(), Arc::downgrade(&made)));
        Ok(made)
    }

    /// The topology for these settings. Nothing is opened yet.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`] if a named file cannot be used, or if the servers are a quorum.
    pub(crate) fn new(
        settings: &RedisOptions,
        durability: Option<Arc<Durability>>,
        admission: Option<Arc<dyn Admission>>,
    ) -> Result<Self, InvalidInput> {
        let dialer = || -> Result<_, InvalidInput> {
            let dialer = Dialer::new(settings)?.admitted_by(admission);
            Ok(ServerDialer::new(dialer, durability))
        };
        match &settings.servers {
            Servers::Cluster(seeds) => Ok(Self::Cluster(Cluster::new(dialer()?, seeds.clone()))),
            Servers::Standalone(address) => {
                Ok(Self::Standalone(address.clone(), Pool::new(dialer()?)))
            }
            Servers::Sentinel { sentinels, service } => {
                let to_sentinels = Dialer::to_sentinels(settings)?;
                let discovery = Discovery::new(dialer()?, to_sentinels, sentinels, service);
                Ok(Self::Sentinel(Sentinel { pool: Pool::new(discovery) }))
            }
            Servers::Quorum(_) => {
                let why = format!(
                    "{}: this is a store of several servers, for locks only: open it with \
                     `Client::connect` or `store::open`",
                    settings.servers
                );
                Err(InvalidInput::new("url", why))
            }
        }
    }

    /// Runs a script on the server that serves its keys.
    pub(crate) async fn run<A>(&self, call: &Call<A>) -> Result<A, StoreError> {
        match self {
            Self::Cluster(cluster) => Box::pin(cluster.run(call)).await,
            Self::Sentinel(sentinel) => Box::pin(sentinel.run(call)).await,
            Self::Standalone(address, pool) => Ok(pool.to(address).await?.run(call, false).await?),
        }
    }

    /// All primaries, whose connections are being opened.
    pub(crate) async fn primaries(&self) -> Result<Vec<Opening<'_>>, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.primaries().await,
            Self::Standalone(address, pool) => Ok(vec![pool.to(address).boxed()]),
            Self::Sentinel(sentinel) => Ok(vec![sentinel.primary().boxed()]),
        }
    }

    /// The slots that a primary serves in a cluster; otherwise none.
    pub(crate) fn slots_of(&self, primary: &Address) -> Vec<u16> {
        let Self::Cluster(cluster) = self else { return Vec::new() };
        cluster.slots_of(primary)
    }

    /// Updates the list of primaries, if the topology keeps one.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let Self::Cluster(cluster) = self else { return Ok(()) };
        cluster.refresh().await
    }

    /// The primary that serves a key.
    pub(crate) async fn serving(&self, key: &[u8]) -> Opened {
        match self {
            Self::Cluster(cluster) => cluster.serving(key).await,
            Self::Standalone(address, pool) => pool.to(address).await,
            Self::Sentinel(sentinel) => sentinel.primary().await,
        }
    }

    /// Whether all leases end by the clock of one server.
    pub(crate) fn has_one_clock(&self) -> bool {
        !matches!(self, Self::Cluster(_))
    }

    /// The shard number of the server that serves a key: zero if there is only one server.
    pub(crate) fn shard(&self, key: impl FnOnce() -> Vec<u8>) -> u64 {
        let Self::Cluster(cluster) = self else { return 0 };
        cluster.shard(&key())
    }

    /// The servers at which a client must subscribe so that messages take no detour; `None` if
    /// there is only one.
    pub(crate) fn subscribed_nodes(&self) -> Option<Vec<Address>> {
        let Self::Cluster(cluster) = self else { return None };
        Some(cluster.subscribed_nodes())
    }

    /// Opens a separate connection on which the messages of all channels arrive: to one of the
    /// [`subscribed_nodes`](Self::subscribed_nodes), or to any server.
    pub(crate) async fn listen(
        &self,
        node: Option<&Address>,
        pushes: PushSender,
    ) -> Result<Connection, StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.listen(node, pushes).await,
            Self::Standalone(address, pool) => pool.opener.dialer.dial(address, Some(pushes)).await,
            Self::Sentinel(sentinel) => sentinel.listen(pushes).await,
        }
    }

    /// Checks whether a connection for messages still lives, and still leads to a server that gets
    /// the messages.
    pub(crate) async fn probe(&self, connection: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Cluster(cluster) => cluster.probe(connection).await,
            Self::Standalone(..) => connection.ask(&redis::cmd("PING")).await.map(drop),
            Self::Sentinel(_) => role::expect_primary(connection).await,
        }
    }
}
