//! Redis or Valkey: one hash per lock, one script per operation.

#[doc(hidden)]
pub mod connection;
#[doc(hidden)]
pub mod data;
mod delifeq;
mod doctor;
mod durability;
#[doc(hidden)]
pub mod layout;
mod list;
mod node_list;
mod pubsub;
pub(super) mod quorum_node;
mod rights;
mod topology;
mod url;
mod warnings;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasehold_core::{
    Action, Answer, BoxFuture, ClientId, LockName, Operation, RenewLease, StoreError,
};

use self::connection::dial::Admission;
use self::delifeq::Values;
use self::doctor::{clocks, connect_check};
use self::durability::Durability;
use self::layout::native::{Keyspace, Native};
use self::layout::plain::{Plain, keys_note};
use self::layout::{Layout, key, reply};
use self::list::{Listing, list};
use self::pubsub::cluster_inbox::ClusterInbox;
use self::pubsub::subscription;
use self::topology::Topology;
pub(super) use self::url::without_password;
use self::url::{LayoutName, Place, Settings};
use self::warnings::Warnings;
use super::{Capabilities, Finding, Inbox, News, Store};

/// A Redis or Valkey primary, whichever server sentinels name as the primary, or a cluster.
///
/// Every operation is one script on one key, so it is atomic; leases end by the server's clock.
/// A grant lives in the server's memory: how much of it a crash forgets is up to its append-only
/// file, and [`Store::warnings`] says what was found.
///
/// # URLs
///
/// `redis://[user[:password]@]host[:port][/db]`, `redis+unix://[user[:password]@]/path`,
/// `redis+sentinel://[user[:password]@]sentinel1:26379,sentinel2:26379/SERVICE[/db]`, and
/// `redis+cluster://[user[:password]@]node1:7000,node2:7000` with some nodes of a cluster;
/// `rediss` in place of `redis` for TLS, `valkey` in place of `redis`. Options follow a `?` and are
/// separated by `&`:
///
/// | option | meaning | default |
/// |---|---|---|
/// | `prefix` | what all keys and channels begin with | `lh:` |
/// | `retention` | how long a name's last token is kept after its last use | `2m` |
/// | `connect_timeout` | how long opening a connection may take | `5s` |
/// | `timeout` | how long one request may take | `500ms` |
/// | `ca` | a file with the authorities to trust, PEM | the system's |
/// | `cert`, `key` | files with the client's certificate and key, PEM | none |
/// | `insecure` | `on`: any server is believed | `off` |
/// | `layout` | `plain`: the lock of the Redis documentation, shared with others | `native` |
/// | `sentinel_user` | who the client is to sentinels; servers know the one before the `@` | none |
/// | `offset` | how far apart the clocks of servers may be that take over | see Clocks |
/// | `replicas` | how many must have a grant before it counts: `none`, a number, `all` | `none` |
/// | `waitaof` | `on`: disks must have it too, that of the server and of those replicas | `off` |
/// | `quarantine` | how long nothing new is granted after memory was lost; `on` is `1m` | `off` |
///
/// On the nodes of a `redis+quorum://` an acquire has 1 % of its ttl, 5 to 50 ms, unless `timeout`
/// is given, `quarantine` is `on` unless it is turned off, and `retention` is 30 s at the least
/// ([`Quorum`](super::Quorum)).
///
/// A password that is not in the URL is taken from the environment variable `LEASEHOLD_PASSWORD`,
/// or from the first line of the file that `LEASEHOLD_PASSWORD_FILE` names.
///
/// # Rights
///
/// The least that suffices, for a program that holds locks and for an operator who looks at them
/// ([`Redis::HOLDER_RIGHTS`], [`Redis::OPERATOR_RIGHTS`]):
///
/// ```text
/// ACL SETUSER holder on >PASSWORD resetkeys ~lh:* resetchannels &lh:inbox:* -@all +evalsha
///     +script|load +time +hget +hmget +hset +hdel +hlen +pexpireat +publish +subscribe +ping +info
/// ACL SETUSER operator on >PASSWORD (the same) +scan
/// ```
///
/// In a cluster both also need [`Redis::CLUSTER_RIGHTS`].
///
/// Without `+publish`, `+subscribe` or the channels, waiters are not woken and find out by asking,
/// once a second. Without `+info`, nothing is known of the server's settings.
///
/// # Replicas
///
/// A primary answers before its replicas have what it says, so a failover may forget a grant and
/// make it twice. With `replicas=all`, an acquire, a claim, a renewal and an upgrade count only
/// once every replica has acknowledged them (`WAIT`, on the connection that wrote). Then whichever
/// is promoted knows the grant; and a primary that was left behind, stopped or cut off, gets no
/// acknowledgement from the one that was promoted, so it grants nothing any more.
///
/// `replicas=N` with fewer than there are promises neither: the replica that is promoted may be the
/// one that did not acknowledge, and the other may go on acknowledging for the old primary. It only
/// makes the loss rarer. `all` is the largest number of replicas that this client has seen follow,
/// at least one: one that goes away does not lower it, because it may come back as the primary. A
/// client that starts while one is away cannot know of it: where that matters, give the number.
///
/// A grant that too few acknowledge within half of `timeout` does not count. Whoever waits keeps
/// it, without relying on it, and asks again until the replicas have it; whoever gives up gives it
/// back, and fails with [`NotReplicated`](leasehold_core::StoreErrorKind::NotReplicated). A renewal
/// that is not acknowledged prolongs nothing. So while a replica is away, nothing new is granted
/// and what is held ends: also after a failover, until the old primary follows the new one. Every
/// client of the locks needs the same setting: one that waits for more replicas than there are
/// keeps all others out. In a cluster each primary has its own replicas.
///
/// `waitaof=on` needs Redis 7.2 or Valkey 7.2 and an append-only file: a grant then also survives
/// the power loss of a server that syncs every second.
///
/// Needs the rights `+wait` (or `+waitaof`) and `+role` on top. Costs two connections for each
/// runtime that holds locks, and the round trip to the replicas; what comes while that is under way
/// shares the next. Off costs nothing, not even a command.
///
/// # Quarantine
///
/// A server that was restarted without its data, was flushed, or was promoted without the last
/// writes has forgotten who holds what. With `quarantine=on` a boot record beside the locks
/// (`lh:%boot`) says which run of which server they belong to. When it is missing or names another
/// run, nothing new is granted for so long that every lease of before has ended; verbs fail with
/// [`Quarantined`](leasehold_core::StoreErrorKind::Quarantined), waiters go on waiting. Holders
/// keep their leases: what the server has forgotten they take back by their tokens.
///
/// - Every client of the locks needs the same setting, and no ttl may be longer.
/// - Every restart counts, also one that forgot nothing: with `appendfsync always` leave it off.
/// - A new server is in quarantine too: wait, or say that it is new
///   ([`Admin::end_quarantine`](crate::Admin::end_quarantine), `leasehold end-quarantine`).
/// - It does not notice a single lock that is deleted or evicted (`maxmemory-policy noeviction`),
///   nor a primary that was left behind and still answers (`replicas=all`), nor a restart behind a
///   proxy that keeps the client's connection.
/// - A newcomer that asks for a held lock in the moment of a flush may cost its holder the lease,
///   never exclusion.
/// - Not in a cluster yet.
///
/// Needs the right `+info`. Costs a small script behind each acquire and claim, in the same round
/// trip, and two more on each new connection.
///
/// # Layouts
///
/// With `layout=plain` a lock is the string of the Redis documentation (`SET key value NX PX`), and
/// its key is `prefix=` and the name, with nothing escaped. It excludes, and is excluded by, all
/// programs that do the same: redis-py's `Lock`, node-redlock, rslock and many more. It ends with
/// its hold, so there is no queue (whoever waits asks every 20 to 200 ms), nothing is shared, and
/// tokens are the server's clock at the grant, which grow as long as it is not set back. A copy of
/// an acquire that comes after its attempt has ended is granted to nobody, for one ttl; more than
/// 10 s late it is refused. Needs other rights: [`Redis::PLAIN_RIGHTS`].
///
/// # Connections
///
/// One per tokio runtime that uses the store, and one more for each open inbox; in a cluster so
/// many for each primary that is used. They are opened when they are needed and replaced when
/// they are dead. The driver's own retries are off. An address where nothing is is dialled at most
/// four times a second, by all of them together.
///
/// # Sentinels
///
/// All sentinels of the URL are asked at once, and none is depended on: one that answers is enough,
/// and those that hang delay nobody. Of the servers they name, that of the latest failover is
/// taken, once it says itself that it is the primary; until then they are asked again, for up to
/// `connect_timeout`. A connection is then used for as long as its server lives and takes writes,
/// even if no sentinel can be reached any more. A call that is refused because the server has
/// become a replica goes to the new primary at once, and a replica is never asked anything. Inboxes
/// move too; what was told meanwhile is asked for.
///
/// The password for sentinels is taken from `LEASEHOLD_SENTINEL_PASSWORD`, and the servers' is not
/// shown to them. `rediss+sentinel` speaks TLS with both: the address that sentinels announce must
/// be in the servers' certificates. A user of one's own needs [`Redis::SENTINEL_RIGHTS`] there.
///
/// What a failover forgets, and what becomes of it (`replicas=all` forgets nothing, `quarantine=on`
/// grants nothing new meanwhile):
///
/// - A grant that the new primary had not received: its holder is told, when its inbox moves or its
///   lease is renewed. The next holder has a higher token, but for a moment there are two.
/// - A release that it had not received: the name stays taken until the lease would have ended.
/// - A place in its queue that it had not received: the waiter joins again, at the end.
///
/// An old primary that is cut off from its sentinels, but not from its clients, goes on until it
/// notices: `min-replicas-to-write 1` bounds that. With `SENTINEL FAILOVER` it goes on for seconds
/// too, but clients leave it at once. `FAILOVER`, sent to the primary itself, forgets nothing, but
/// sentinels notice only after `down-after-milliseconds` and 20 s more: until then clients find no
/// primary, and shorter leases end.
///
/// # Clusters
///
/// A name lives in one slot, and each name is locked, renewed and handed over by the primary of
/// that slot alone: the outage of one primary costs the names of its slots and no others. A slot
/// may be moved while its names are held and awaited. A name with a hash tag (`{user:7}/cart`)
/// lives in the slot of that tag, beside the data it protects. A failover forgets what the replica
/// had not received, as everywhere where replication is not waited for.
///
/// A client that waits listens at every primary, at eight at most: a connection each. What is
/// published at one node reaches all, but by the bus between the nodes, where two messages in a
/// row may take 40 ms. Each message costs some processor time on every node, so a cluster of many
/// nodes in which very many locks are handed over feels it (`benches/README.md`).
///
/// Nodes are reached by the address that they announce; with TLS, that name or number must be in
/// their certificates (`cluster-announce-hostname`, `cluster-preferred-endpoint-type hostname`).
///
/// # Clocks
///
/// A lease ends by the clock of its server. The server that takes over after a failover, or to
/// which a slot moves, goes on with the same deadlines by its own clock: one that is ahead ends
/// leases early. `offset` says how far apart such clocks may be, and is taken off what every holder
/// relies on. By default it is 500 ms with sentinels, in a cluster, with `replicas=`, and where
/// replicas follow the server when the client connects; it is zero on one server alone, on the
/// nodes of a quorum, each of which has a clock of its own, and with `quarantine=`, which lets all
/// leases end.
///
/// - A ttl of which less than a third is left is refused ([`Error::Invalid`]); so is one that
///   leaves less than the `min_validity`.
/// - On connecting, the clocks of all these servers are compared (one short connection to each, and
///   no longer than `timeout`): from half of `offset` on that is warned of, and from all of it on
///   leases may end early. `leasehold doctor` says the same.
/// - Every client needs the same setting. Where a replica comes later, give it beforehand.
///
/// [`Error::Invalid`]: leasehold_core::Error::Invalid
pub struct Redis {
    place: Place,
    name: LayoutName,
    layout: Box<dyn Layout>,
    keyspace: Keyspace,
    /// Of plain locks only.
    values: Option<Values>,
    topology: Arc<Topology>,
    warnings: Arc<Warnings>,
    durability: Option<Arc<Durability>>,
    clock_offset: Duration,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("place", &self.place.to_string())
            .field("prefix", &self.keyspace.prefix)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// The rights that a program needs to use the data parts; one that also holds locks needs
    /// those of a holder too.
    pub const DATA_RIGHTS: &'static str = rights::DATA;

    /// The rights that a program needs to hold locks, as `ACL SETUSER` takes them after a name and
    /// a password. With a `prefix=` of one's own, both patterns begin with it; with a database in
    /// the URL, `+select` comes on top.
    pub const HOLDER_RIGHTS: &'static str = rights::HOLDER;

    /// The rights that both need on top in a cluster.
    pub const CLUSTER_RIGHTS: &'static str = rights::CLUSTER;

    /// The rights that a program needs to hold locks with `layout=plain`: as
    /// [`HOLDER_RIGHTS`](Self::HOLDER_RIGHTS), for other commands. From Valkey 9 on, `+delifeq` on
    /// top makes a release cheaper.
    pub const PLAIN_RIGHTS: &'static str = rights::PLAIN;

    /// The rights that an operator needs on top, to list what is held.
    pub const OPERATOR_RIGHTS: &'static str = rights::OPERATOR;

    /// The rights that `sentinel_user` needs on sentinels. Without the channel and `+subscribe`, a
    /// client that keeps its connection to a primary that was replaced leaves it some seconds
    /// later.
    pub const SENTINEL_RIGHTS: &'static str = rights::SENTINEL;

    /// The rights that a holder needs on top with `replicas=`; with `waitaof=on` also `+waitaof`,
    /// which servers before Redis 7.2 do not know.
    pub const REPLICAS_RIGHTS: &'static str = rights::REPLICAS;

    /// Connects to the server that a URL names, and looks at what it is.
    ///
    /// # Errors
    ///
    /// [`leasehold_core::Error::Invalid`] names the part of the URL that is wrong.
    /// [`leasehold_core::Error::Store`] says why the server was not reached, or why it will not
    /// do: too old, a replica, a node of a cluster.
    ///
    /// # Cost
    ///
    /// Three round trips, or two more with TLS.
    pub async fn connect(url: &str) -> leasehold_core::Result<Self> {
        Self::open(Settings::parse(url)?, None).await
    }

    async fn open(
        settings: Settings,
        admission: Option<Arc<dyn Admission>>,
    ) -> leasehold_core::Result<Self> {
        settings.check_available()?;
        let durability = Durability::new(&settings);
        let topology = Arc::new(Topology::new(&settings, durability.clone(), admission)?);
        let warnings = Arc::new(Warnings::default());
        if settings.layout == LayoutName::Plain && settings.prefix.is_none() {
            warnings.add(keys_note(settings.prefix()));
        }
        let primaries = topology.primaries().await?.into_iter();
        let (found, missing): (Vec<_>, Vec<_>) = primaries.partition(Result::is_ok);
        // Those of a cluster that answer serve their slots, even while others do not.
        let looked_at = if found.is_empty() { missing } else { found };
        let (mut clocks, mut followers) = (Vec::new(), Vec::new());
        for server in looked_at {
            let server = server?;
            let seen = connect_check::look(&server, &settings).await?;
            clocks.extend(seen.clock);
            followers.extend(seen.followers);
            seen.findings.iter().for_each(|finding| warnings.add(finding.to_string()));
            server.check_durability().await?.into_iter().for_each(|words| warnings.add(words));
        }
        let clock_offset = settings.clock_offset(!followers.is_empty());
        if settings.quarantine.is_none() {
            clocks.extend(clocks::read(&settings, &followers).await);
            let apart = clocks::trouble(&clocks, clock_offset);
            apart.iter().for_each(|finding| warnings.add(finding.to_string()));
        }
        let prefix = settings.prefix().to_owned();
        let keyspace = Keyspace { prefix: prefix.clone(), retention: settings.retention };
        let (layout, values): (Box<dyn Layout>, _) = match settings.layout {
            LayoutName::Native => (Box::new(Native(keyspace.clone())), None),
            LayoutName::Plain => (Box::new(Plain { prefix }), Some(Values::default())),
        };
        Ok(Self {
            name: settings.layout,
            layout,
            keyspace,
            values,
            place: settings.place,
            topology,
            warnings,
            durability,
            clock_offset,
        })
    }

    /// Whether a URL can be one.
    pub(super) fn check_url(url: &str) -> Result<(), leasehold_core::Invalid> {
        Settings::parse(url)?.check_available()
    }

    /// What would break a promise: looks at every server that a URL leads to.
    pub(crate) async fn examine(url: &str) -> leasehold_core::Result<Vec<Finding>> {
        doctor::examine(url).await
    }

    /// What a store of this layout can do, whatever else is asked of it.
    fn able(layout: LayoutName) -> Capabilities {
        let keeps_a_record = match layout {
            LayoutName::Native => true,
            LayoutName::Plain => false,
        };
        Capabilities {
            claims_first: false,
            durable: true,
            permits: keeps_a_record,
            queued: keeps_a_record,
            reclaims: false,
            recorded_tokens: keeps_a_record,
            shared: keeps_a_record,
            wakes: true,
        }
    }

    /// Whether a URL with this scheme is for a Redis store, even one that is not supported.
    pub(crate) fn is_named_by(scheme: &str) -> bool {
        ["redis", "valkey"].iter().any(|name| scheme.starts_with(name))
    }

    async fn run(&self, operation: Operation) -> Result<Answer, StoreError> {
        if let Some(durability) = &self.durability {
            durability.check(&operation)?;
        }
        match operation {
            Operation::List { prefix: begin, limit, idle } => {
                let primaries = self.topology.primaries().await?;
                let primaries = primaries.into_iter().collect::<Result<Vec<_>, _>>()?;
                let (layout, limit) = (&*self.layout, limit as usize);
                list(&primaries, Listing { layout, begin: &begin, limit, idle }).await
            }
            Operation::On { name, action } => self.act(&name, &action).await,
            Operation::Renew(leases) => self.renew(&leases).await,
        }
    }

    async fn act(&self, name: &LockName, action: &Action) -> Result<Answer, StoreError> {
        if let Some(values) = &self.values
            && let Some(value) = values.let_go(action)
        {
            let key = self.layout.key(name);
            let server = self.topology.serving(&key).await?;
            if let Some(answer) = values.delete(&server, key, value, action).await? {
                return Ok(answer);
            }
        }
        let answer = self.topology.run(&self.layout.act(name, action)?).await?;
        if let Some(values) = &self.values {
            values.note(action, &answer.reply);
        }
        Ok(answer)
    }

    async fn renew(&self, leases: &[RenewLease]) -> Result<Answer, StoreError> {
        let together = async |leases| self.topology.run(&self.layout.renew(leases)).await;
        match &*self.topology {
            Topology::Standalone(_) | Topology::Sentinel(_) => together(leases).await,
            // A script may only touch keys of one slot there, and keys of one slot are apart while
            // the slot is moved. Sent at the same time, they still share a packet for each node.
            Topology::Cluster(_) => {
                let calls = leases.iter().map(|lease| together(std::slice::from_ref(lease)));
                let answers = try_join_all(calls).await.map_err(StoreError::maybe_executed)?;
                Ok(reply::merge(answers))
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
            ..Self::able(self.name)
        }
    }

    fn execute(&self, operation: Operation) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(self.run(operation))
    }

    fn inbox(&self, client: ClientId) -> BoxFuture<'_, Result<Box<dyn Inbox>, StoreError>> {
        let channel = key::inbox(&self.keyspace.prefix, client);
        let (topology, warnings) = (Arc::clone(&self.topology), Arc::clone(&self.warnings));
        Box::pin(async move {
            let nodes = topology.subscribed_nodes();
            Ok(match nodes {
                Some(nodes) => {
                    Box::new(ClusterInbox::open(topology, warnings, channel, nodes).await?)
                }
                None => Box::new(subscription::open(topology, warnings, channel).await?)
                    as Box<dyn Inbox>,
            })
        })
    }

    fn shard(&self, name: &LockName) -> u64 {
        self.topology.shard(|| self.layout.key(name))
    }

    fn clock_offset(&self) -> Duration {
        self.clock_offset
    }

    fn tell(&self, name: &LockName, news: &str) -> BoxFuture<'_, Result<(), StoreError>> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(key::news(&self.keyspace.prefix, name)).arg(news);
        let key = self.layout.key(name);
        // By the same server as before, so that news arrive in the order in which they are told.
        Box::pin(async move { self.topology.serving(&key).await?.ask(&publish).await.map(drop) })
    }

    fn news(&self, name: &LockName) -> BoxFuture<'_, Result<Option<Box<dyn News>>, StoreError>> {
        let channel = key::news(&self.keyspace.prefix, name);
        let (topology, warnings) = (Arc::clone(&self.topology), Arc::clone(&self.warnings));
        let opening = subscription::open(topology, warnings, channel);
        Box::pin(async {
            let channel = opening.await?;
            Ok((!channel.is_silent()).then(|| Box::new(channel) as Box<dyn News>))
        })
    }

    fn end_quarantine(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async {
            let mut is_any = false;
            for server in self.topology.primaries().await? {
                is_any |= server?.end_quarantine().await?;
            }
            Ok(is_any)
        })
    }

    fn warnings(&self) -> Vec<String> {
        self.warnings.all()
    }
}
