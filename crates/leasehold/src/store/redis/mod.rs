//! Redis or Valkey: a string for each lock that is held, and one script per operation.
//!
//! [`Redis`] is the store, [`RedisOptions`] are its options, and [`Redis::MANUAL`] is the manual
//! for operators.

mod checks;
mod clocks;
mod connection;
mod contention;
mod doctor;
mod durability;
#[cfg(all(fuzzing, feature = "file"))]
pub(super) mod fuzzing;
mod layout;
mod list;
mod node_list;
mod options;
mod pubsub;
pub(super) mod quorum_node;
mod rights;
mod run_script;
mod topology;
pub mod wire;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, End, Grant, Keep, LockName, Operation, Refusal, Reply,
    StoreError, Take,
};

use self::checks::ConnectCheck;
use self::clocks::ServerClock;
use self::connection::dial::Admission;
use self::contention::Contention;
pub(super) use self::doctor::examine;
use self::durability::Durability;
use self::layout::native::Native;
use self::layout::plain::{Plain, keys_note};
use self::layout::redisson::Redisson;
use self::layout::{Layout, Set, key};
use self::list::page;
pub use self::options::{LayoutName, RedisOptions, Replicas};
use self::pubsub::cluster_inbox::ClusterInbox;
use self::pubsub::subscription::{self, Channels};
pub use self::run_script::{RedisItem, RedisScript};
use self::topology::Topology;
use super::renewals::keep_each;
use super::traits::refuse_in_child;
use super::warnings::Warnings;
use super::{Capabilities, Inbox, Store, Subscribed, Subscription};
use crate::process::MadeIn;

/// A Redis or Valkey primary, the primary that sentinels name, or a cluster.
///
/// Every operation is one command or one script, so it is atomic; leases end by the server's clock.
/// Grants live in the server's memory. Its append-only file decides how many of them a crash
/// forgets, and [`Store::warnings`] reports the settings that were found.
///
/// [`store::MANUAL`](super::MANUAL) describes URLs and their options. [`Redis::MANUAL`] describes
/// what each topology and each option promises and costs, the configuration of the server, and the
/// rights to grant.
pub struct Redis {
    made_in: MadeIn,
    settings: RedisOptions,
    layout: Box<dyn Layout>,
    topology: Arc<Topology>,
    warnings: Arc<Warnings>,
    durability: Option<Arc<Durability>>,
    contention: Contention,
    clock_offset: Duration,
    /// The primary's clock as it was read on connecting, if there is only one primary.
    clock: Option<ServerClock>,
}

debug_as!(Redis => |it, f| {
    let (servers, prefix) = (it.settings.servers.to_string(), it.settings.prefix());
    f.debug_struct("Redis").field("servers", &servers).field("prefix", &prefix).finish()
});

impl Redis {
    #[doc = include_str!("../../../docs/redis.md")]
    pub const MANUAL: &'static str = include_str!("../../../docs/redis.md");

    /// The rights that a program needs to hold locks, as `ACL SETUSER` takes them after a name and
    /// a password. With a `prefix=`, both patterns begin with it; with a database in the URL, add
    /// `+select`.
    pub const HOLDER_RIGHTS: &'static str = rights::HOLDER;

    /// The additional rights that holders and operators need in a cluster.
    pub const CLUSTER_RIGHTS: &'static str = rights::CLUSTER;

    /// The rights that a program needs to hold locks with `layout=plain`: like
    /// [`HOLDER_RIGHTS`](Self::HOLDER_RIGHTS), for other commands.
    pub const PLAIN_RIGHTS: &'static str = rights::PLAIN;

    /// The rights that a program needs to hold locks with `layout=redisson`. With a `prefix=`, use
    /// `~PREFIX*` and `~{PREFIX*` in place of `~*`, and with
    /// `layout=redisson-fenced` also `~redisson_lock_token:*`.
    pub const REDISSON_RIGHTS: &'static str = rights::REDISSON;

    /// The additional rights that an operator needs to list held locks.
    pub const OPERATOR_RIGHTS: &'static str = rights::OPERATOR;

    /// The rights that `sentinel_user` needs on sentinels. Without the channel and `+subscribe`, it
    /// takes a client some seconds longer to leave a primary that was replaced.
    pub const SENTINEL_RIGHTS: &'static str = rights::SENTINEL;

    /// The additional rights that a holder needs with `replicas=`.
    pub const REPLICAS_RIGHTS: &'static str = rights::REPLICAS;

    /// Connects to the servers that the options name, and checks them.
    ///
    /// # Errors
    ///
    /// [`leasehold_core::Error::Invalid`] names the option that is out of range, or that excludes
    /// another one. It also refuses a quorum, which [`store::open`](super::open) opens.
    /// [`leasehold_core::Error::Store`] says why a server was not reached, or why it cannot be
    /// used: too old, a replica, a node of a cluster.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes what was opened.
    ///
    /// # Cost
    ///
    /// Three round trips, or two more with TLS.
    pub async fn open(options: RedisOptions) -> leasehold_core::Result<Self> {
        Self::open_admitted(options, None).await
    }

    async fn open_admitted(
        settings: RedisOptions,
        admission: Option<Arc<dyn Admission>>,
    ) -> leasehold_core::Result<Self> {
        settings.check()?;
        let is_node = admission.is_some();
        let durability = Durability::new(&settings);
        let topology = match &admission {
            None => Topology::shared(&settings)?,
            Some(_) => Arc::new(Topology::new(&settings, durability.clone(), admission)?),
        };
        let warnings = Arc::new(Warnings::default());
        if settings.layout == LayoutName::Plain && settings.prefix.is_none() {
            warnings.add(keys_note(settings.prefix()));
        }
        let ConnectCheck { warnings: found, clocks, followers } =
            checks::check_servers(&topology, &settings).await?;
        found.into_iter().for_each(|warning| warnings.add(warning));
        let clock_offset = settings.clock_offset(!followers.is_empty());
        let clock = clocks.first().filter(|_| topology.has_one_clock()).cloned();
        let apart = clocks::of_successors(&settings, clocks, &followers).await;
        warnings.add_trouble(apart);
        let prefix = settings.prefix().to_owned();
        let layout: Box<dyn Layout> = match settings.layout {
            LayoutName::Native if is_node => Box::new(Native::of_node(prefix)),
            LayoutName::Native => Box::new(Native::new(prefix, !topology.has_one_clock())),
            LayoutName::Plain => Box::new(Plain { prefix }),
            LayoutName::Redisson | LayoutName::RedissonFenced => Box::new(Redisson {
                prefix: settings.lock_prefix().to_owned(),
                inboxes: prefix,
                sharded: !topology.has_one_clock(),
                fenced: settings.layout == LayoutName::RedissonFenced,
            }),
        };
        Ok(Self {
            made_in: MadeIn::this(),
            settings,
            layout,
            topology,
            warnings,
            durability,
            contention: Contention::default(),
            clock_offset,
            clock,
        })
    }

    /// The capabilities with these settings, before replicas and a quarantine change them.
    fn able(settings: &RedisOptions) -> Capabilities {
        let is_plain = settings.layout == LayoutName::Plain;
        let keeps_a_record = !settings.layout.is_shared();
        Capabilities {
            // The counter of an `RFencedLock` leaves no room for tokens between two grants.
            local_tokens: settings.layout != LayoutName::RedissonFenced,
            permits: keeps_a_record,
            publishes_releases: !is_plain,
            queued: keeps_a_record,
            recorded_tokens: keeps_a_record,
            shared: !is_plain,
            ..Capabilities::OF_RECORDS
        }
    }

    /// The topology of the store; an error in a forked child, whose connections are shared with the
    /// parent.
    pub(crate) fn topology(&self) -> Result<&Topology, StoreError> {
        refuse_in_child(&self.made_in)?;
        Ok(&self.topology)
    }

    /// The channel of the messages about a name.
    fn channel(&self, name: &LockName) -> Vec<u8> {
        key::channel(self.settings.prefix(), self.settings.database, name)
    }

    async fn act(&self, name: &LockName, action: &Action) -> Result<Answer, StoreError> {
        let mut is_set = false;
        if let Action::Take(take) = action {
            let mode = take.request.mode;
            if mode.weight() > mode.capacity() {
                return Ok(Answer::untimed(Reply::Refused(Refusal::Weight)));
            }
            match self.set(name, take).await? {
                Set::Numbered(token) => {
                    let grant = Grant::new(token).with_described(false);
                    return Ok(Answer::untimed(Reply::Granted(grant)));
                }
                Set::Unnumbered => is_set = true,
                Set::Taken => {}
            }
        }
        if let Action::End(end) = action
            && !self.topology.has_one_clock()
            && !self.contention.is_likely(name)
            && Box::pin(self.end_alone(name, end)).await?
        {
            return Ok(Answer::untimed(Reply::Ended(true)));
        }
        let answer = self.topology()?.run(&self.layout.act(name, action)?).await;
        let answer = answer.map_err(|it| if is_set { it.maybe_executed() } else { it })?;
        if let Reply::Busy { .. } | Reply::Kept { contended: true } | Reply::Queued(_) =
            answer.reply
        {
            self.contention.note(name);
        }
        Ok(answer)
    }

    /// Ends a hold in a cluster, where its slot may be moving, if nobody waits.
    async fn end_alone(&self, name: &LockName, end: &End) -> Result<bool, StoreError> {
        match self.layout.end_alone(name, end) {
            Some(call) => self.topology()?.run(&call).await,
            None => Ok(false),
        }
    }

    /// Takes a name of which nothing is known by setting its value.
    async fn set(&self, name: &LockName, take: &Take) -> Result<Set, StoreError> {
        // What a grant needs beside its script, the other commands would need, too.
        if self.durability.is_some() || self.contention.is_likely(name) {
            return Ok(Set::Taken);
        }
        let Some(set) = self.layout.set(name, take) else { return Ok(Set::Taken) };
        let outcome = self.topology()?.run(&set).await?;
        if outcome == Set::Taken {
            self.contention.note(name);
        }
        // The script gives a number to the attempt that has the name. While a slot moves, it cannot
        // run.
        let is_to_draw = outcome == Set::Unnumbered && !self.topology.has_one_clock();
        if let Some(draw) = is_to_draw.then(|| self.layout.draw(name)).flatten() {
            let drawn = Box::pin(self.topology()?.run(&draw)).await;
            return drawn.map_err(StoreError::maybe_executed);
        }
        Ok(outcome)
    }

    async fn keep(&self, leases: Vec<(LockName, Keep)>) -> Result<Answer, StoreError> {
        let together = async |leases: &[_]| {
            let call = self.layout.keep(leases)?;
            self.topology()?.run(&call).await
        };
        match &*self.topology {
            Topology::Standalone(..) | Topology::Sentinel(_) => together(&leases).await,
            // In a cluster, a script may only use keys of one slot, and while a slot moves, its
            // keys are at two nodes. So each lease has a separate call. Calls that are sent at the
            // same time still share a packet for each node.
            Topology::Cluster(_) => {
                let keep = |name, keep| async { together(&[(name, keep)]).await };
                keep_each(leases, 2 * self.settings.timeout(), keep).await
            }
        }
    }
}

impl Store for Redis {
    fn capabilities(&self) -> Capabilities {
        let durability = self.durability.as_ref();
        Capabilities {
            claims_first: durability.is_some(),
            reclaims: durability.is_some_and(|durability| durability.reclaims()),
            ..Self::able(&self.settings)
        }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        if let Some(Err(error)) = self.durability.as_ref().map(|durable| durable.check(&operation))
        {
            return Box::pin(ready(Err(error)));
        }
        match operation {
            Operation::On { name, action } => {
                Box::pin(async move { self.act(&name, &action).await })
            }
            Operation::Keep(leases) => Box::pin(self.keep(leases)),
            Operation::List { prefix, after, keys } => Box::pin(async move {
                let primaries = self.topology.primaries().await?;
                page(primaries, &*self.layout, &prefix, after.as_deref(), keys).await
            }),
            _ => Box::pin(ready(Err(StoreError::unknown_request()))),
        }
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let channel = key::inbox(self.settings.prefix(), client);
        let (topology, warnings) = (Arc::clone(&self.topology), Arc::clone(&self.warnings));
        Box::pin(async move {
            let Some(nodes) = topology.subscribed_nodes() else {
                let inbox = subscription::open(topology, warnings, channel).await?;
                return Ok(Box::new(inbox) as Box<dyn Inbox>);
            };
            Ok(Box::new(ClusterInbox::open(topology, warnings, channel, nodes).await?) as _)
        })
    }

    fn prepare(&self) -> Option<BoxFuture<'_, ()>> {
        Some(Box::pin(async {
            if let Ok(primaries) = self.topology.primaries().await {
                join_all(primaries).await;
            }
        }))
    }

    fn shard(&self, name: &LockName) -> u64 {
        self.topology.shard(|| self.layout.key(name))
    }

    fn clock_offset(&self) -> Duration {
        self.clock_offset
    }

    fn publish(&self, name: &LockName, message: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.channel(name)).arg(message);
        let key = self.layout.key(name);
        // The same server publishes all messages about a name, so that they arrive in the order in
        // which they are published.
        Box::pin(async move { self.topology.serving(&key).await?.ask(&publish).await.map(drop) })
    }

    fn subscribe(&self, name: &LockName) -> BoxFuture<'_, Subscribed> {
        let own = self.channel(name);
        let theirs = self.layout.release_channels(name);
        let channels = match theirs.is_empty() || self.topology.has_one_clock() {
            true => Channels { all: [vec![own], theirs].concat(), sharded: None },
            false => Channels { all: vec![own], sharded: Some((self.layout.key(name), theirs)) },
        };
        let (topology, warnings) = (Arc::clone(&self.topology), Arc::clone(&self.warnings));
        let opening = subscription::open(topology, warnings, channels);
        Box::pin(async {
            let channel = opening.await?;
            Ok((!channel.is_silent()).then(|| Box::new(channel) as Box<dyn Subscription>))
        })
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async {
            let mut is_any = false;
            self.topology.refresh().await?;
            for server in self.topology.primaries().await? {
                let server = server.await?;
                let slots = self.topology.slots_of(server.address());
                is_any |= server.end_quarantine(&slots).await?;
            }
            Ok(is_any)
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.all()
    }
}
