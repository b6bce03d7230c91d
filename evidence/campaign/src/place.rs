//! A place where locks live: its servers, the way of clients to them, and its possible faults.

use std::path::Path;
use std::time::Duration;

use leasehold::Client;
use leasehold::store::Redis;
use leasehold::store::redis_wire::Script;
use leasehold_data::store::REDIS_RIGHTS;
use leasehold_testkit::{
    Cluster, PgBouncer, Postgres, PostgresPair, Proxy, RedisOptions, RedisServer, Replicated,
    SentinelFleet, must, quorum_url,
};
use tokio::runtime::Builder;

use crate::fault::Fault;
use crate::plan::{Plan, QUARANTINE};
use crate::random::Random;
use crate::register::TABLE;
use crate::topology::Topology;

/// How long a cluster's node may be silent before it counts as dead. On a busy machine it must not,
/// because a replica that takes over by itself lacks writes.
pub(crate) const LONG_NODE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a node of a cluster goes on at most after a replica has taken over from it.
const LEFT_BEHIND: Duration = Duration::from_secs(1);

/// Sessions of a pooler with its server.
const POOLED: u32 = 8;

/// How long a server hangs: up to 700 ms.
const HANG: (Duration, Duration) = (Duration::ZERO, Duration::from_millis(700));

/// How long a replica hangs: 0.2 to 0.4 s, about as long as a grant waits for replicas.
const HANG_OF_A_REPLICA: (Duration, Duration) =
    (Duration::from_millis(200), Duration::from_millis(200));

/// The calls that are struck one by one: in each layout, those that change a record.
const NATIVE: [Script; 4] = [Script::Draw, Script::End, Script::Keep, Script::Take];
const PLAIN: [Script; 3] = [Script::PlainEnd, Script::PlainKeep, Script::PlainTake];
const REDISSON: [Script; 3] = [Script::RedissonEnd, Script::RedissonKeep, Script::RedissonTake];

pub(crate) enum Servers {
    None,
    /// Servers that do not know each other: one server, or the nodes of a quorum.
    Independent(Vec<RedisServer>),
    Replicated(Replicated),
    Watched(SentinelFleet),
    Cluster(Cluster),
    /// One server, and the pooler before it.
    Postgres(Postgres, Option<PgBouncer>),
    /// Two servers that take over from each other.
    PostgresPair(PostgresPair),
}

/// A place that is ready.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) plan: Plan,
    pub(crate) servers: Servers,
    /// The proxies by which clients reach independent servers, one for each.
    proxies: Vec<Proxy>,
    pub(crate) faults: &'static [Fault],
    pub(crate) calls: &'static [Script],
    /// How long a server hangs: at least the first span, and at most the second one more.
    pub(crate) hang: (Duration, Duration),
    /// How long the place grants nothing after it has forgotten something.
    pub(crate) quarantine: Duration,
    /// How far the clocks of the servers are ahead of the machine's.
    pub(crate) ahead_s: f64,
}

impl Place {
    /// Starts the servers; a file store is in this directory. `None` if a program is not installed.
    pub(crate) fn start(topology: Topology, directory: &Path) -> Option<Self> {
        let keeps = |appendfsync: &str| RedisServer::options().append_only(appendfsync);
        let keeps_nothing = RedisServer::options();
        let own_clock = RedisServer::options().own_clock();
        let quarantine = format!("?quarantine={}ms", QUARANTINE.as_millis());
        Some(match topology {
            Topology::Clock => Self::one(topology, own_clock, "", &NATIVE),
            Topology::Cluster => Self::cluster(topology),
            Topology::Durable => {
                // As an option of the server, so that a restart keeps it.
                let options = keeps("always").user(&format!("holder on >secret {}", rights()));
                Self::one(topology, options, "", &NATIVE)
            }
            Topology::File => {
                let url = format!("file:{}", directory.join("locks.db").display());
                Self::of(topology, url, Servers::None)
            }
            Topology::Forgetful => Self::one(topology, keeps("no").own_clock(), "", &NATIVE),
            Topology::Memory => Self::of(topology, "memory:".to_owned(), Servers::None),
            Topology::Plain => Self::one(topology, keeps_nothing, "?layout=plain", &PLAIN),
            Topology::Postgres => Self::postgres(topology, None)?,
            Topology::PostgresBouncer => Self::postgres(topology, Some(POOLED))?,
            Topology::Bank | Topology::BankUnfenced | Topology::PostgresStandby => {
                Self::postgres_pair(topology)?
            }
            Topology::Quarantine => {
                let place = Self::one(topology, keeps("everysec"), &quarantine, &NATIVE);
                end_quarantine(&place.url);
                Self { quarantine: QUARANTINE, ..place }
            }
            Topology::Quorum => Self::quorum(topology),
            Topology::Redisson => {
                // Java has tokens, too, from the same counter.
                Self::one(topology, keeps_nothing, "?layout=redisson-fenced", &REDISSON)
            }
            Topology::ReplicasAll => Self::replicas(topology, "all", 2),
            Topology::ReplicasOne => Self::replicas(topology, "1", 1),
            Topology::Sentinel => Self::sentinel(topology, "2"),
            Topology::SentinelAlone => Self::sentinel(topology, "none"),
            Topology::Sharded => Self::sharded(topology),
            Topology::Server => Self::one(topology, keeps_nothing, "", &NATIVE),
        })
    }

    fn of(topology: Topology, url: String, servers: Servers) -> Self {
        Self {
            url,
            plan: topology.plan(),
            servers,
            proxies: Vec::new(),
            faults: topology.faults(),
            calls: &[],
            hang: HANG,
            quarantine: Duration::ZERO,
            ahead_s: 0.0,
        }
    }

    fn one(
        topology: Topology,
        options: RedisOptions,
        url_options: &str,
        calls: &'static [Script],
    ) -> Self {
        let server = must(options.start());
        let proxy = must(Proxy::start(server.port()));
        let user = if topology == Topology::Durable { "holder:secret@" } else { "" };
        let url = format!("redis://{user}127.0.0.1:{}{url_options}", proxy.port());
        let place = Self::of(topology, url, Servers::Independent(vec![server]));
        Self { proxies: vec![proxy], calls, ..place }
    }

    /// A PostgreSQL server, and a pooler before it with this number of sessions, if any.
    fn postgres(topology: Topology, sessions: Option<u32>) -> Option<Self> {
        // Acknowledged writes are on the disk: otherwise a quarantine follows each crash.
        let server = must(Postgres::start_with(&["shared_buffers=16MB"]))?;
        let (url, pooler) = match sessions {
            None => (server.url(), None),
            Some(sessions) => {
                let pooler = must(PgBouncer::start(&server, sessions))?;
                (pooler.url(), Some(pooler))
            }
        };
        Some(Self::of(topology, impatient(&url), Servers::Postgres(server, pooler)))
    }

    /// A primary, and a standby that has all grants, so that a takeover needs no quarantine.
    fn postgres_pair(topology: Topology) -> Option<Self> {
        let pair = must(PostgresPair::start())?;
        must(pair.primary().query(TABLE));
        let url = format!("{}&quarantine=off", impatient(&pair.url()));
        Some(Self::of(topology, url, Servers::PostgresPair(pair)))
    }

    /// Three nodes.
    fn quorum(topology: Topology) -> Self {
        let nodes: Vec<_> = (0..3).map(|_| must(RedisServer::start())).collect();
        let proxies: Vec<_> = nodes.iter().map(|node| must(Proxy::start(node.port()))).collect();
        let quarantine = topology.plan().longest_ttl();
        let options = format!("quarantine={}ms", quarantine.as_millis());
        let url = quorum_url(proxies.iter().map(Proxy::port), &options);
        end_quarantine(&url);
        let hang = (Duration::ZERO, Duration::from_secs(1));
        let place = Self::of(topology, url, Servers::Independent(nodes));
        Self { proxies, calls: &NATIVE, hang, quarantine, ..place }
    }

    /// A primary with a number of replicas, some of which must acknowledge.
    fn replicas(topology: Topology, policy: &str, count: usize) -> Self {
        let servers = must(Replicated::start(count));
        let url = format!("{}?replicas={policy}", servers[0].url());
        let place = Self::of(topology, url, Servers::Replicated(servers));
        Self { hang: HANG_OF_A_REPLICA, ..place }
    }

    /// A primary with two replicas, and sentinels. If every grant must be on both replicas, the
    /// policy is their number. A process that starts during a failover could not know how many
    /// `all` means.
    fn sentinel(topology: Topology, policy: &str) -> Self {
        let options = RedisServer::options();
        let fleet = must(SentinelFleet::start_with(options.clone(), &[100, 100], options));
        let url = format!("{}?replicas={policy}", fleet.url());
        let place = Self::of(topology, url, Servers::Watched(fleet));
        Self { hang: HANG_OF_A_REPLICA, ..place }
    }

    /// Three primaries with a replica each.
    fn cluster(topology: Topology) -> Self {
        let cluster = must(Cluster::start_with_bus(&RedisServer::options(), 1));
        set_node_timeout(&cluster, LONG_NODE_TIMEOUT);
        Self::of(topology, cluster.url(), Servers::Cluster(cluster))
    }

    /// The same with a quarantine. It lasts as long as a lease and the time in which a replaced
    /// primary still serves: the quarantine itself does not cover that.
    fn sharded(topology: Topology) -> Self {
        let place = Self::cluster(topology);
        let quarantine = place.plan.longest_ttl() + LEFT_BEHIND;
        let url = format!("{}?quarantine={}ms", place.url, quarantine.as_millis());
        end_quarantine(&url);
        Self { url, quarantine, ..place }
    }

    /// All Redis servers that clients use.
    pub(crate) fn all(&self) -> Vec<&RedisServer> {
        match &self.servers {
            Servers::None | Servers::Postgres(..) | Servers::PostgresPair(_) => Vec::new(),
            Servers::Independent(servers) => servers.iter().collect(),
            Servers::Replicated(servers) => servers.servers().iter().collect(),
            Servers::Watched(fleet) => fleet.servers().servers().iter().collect(),
            Servers::Cluster(cluster) => {
                (0..cluster.size()).map(|node| cluster.node(node)).collect()
            }
        }
    }

    /// The servers of a fault: one server, a replica if there are any, a node of a cluster that
    /// serves a name. Of a quorum, one node and sometimes two.
    pub(crate) fn victims(&self, random: &mut Random) -> Vec<&RedisServer> {
        let all = self.all();
        match &self.servers {
            Servers::None | Servers::Postgres(..) | Servers::PostgresPair(_) => Vec::new(),
            Servers::Independent(_) => {
                drawn(all.len(), random).into_iter().map(|at| all[at]).collect()
            }
            Servers::Replicated(_) => vec![all[1 + random.below(all.len() - 1)]],
            Servers::Watched(_) => {
                let is_replica = |server: &&&RedisServer| server.role().as_deref() == Some("slave");
                let replicas: Vec<_> = all.iter().filter(is_replica).collect();
                // During a failover there may be none.
                let count = replicas.len();
                if count == 0 { Vec::new() } else { vec![*replicas[random.below(count)]] }
            }
            Servers::Cluster(cluster) => vec![cluster.node(self.slot_of_a_name(random).1)],
        }
    }

    /// The slot of a name in a cluster, and the node that serves it.
    pub(crate) fn slot_of_a_name(&self, random: &mut Random) -> (u16, usize) {
        let Servers::Cluster(cluster) = &self.servers else { panic!("no cluster") };
        let name = Plan::name(random.below(self.plan.names));
        let slot = must(cluster.slot_of(&name));
        (slot, must(cluster.owner(slot)))
    }

    /// The servers to kill, drawn in the same way; all of them are independent.
    pub(crate) fn independent(&mut self, random: &mut Random) -> Vec<&mut RedisServer> {
        let Servers::Independent(servers) = &mut self.servers else {
            panic!("servers that others rely on")
        };
        let drawn = drawn(servers.len(), random);
        let is_drawn = |(at, server)| drawn.contains(&at).then_some(server);
        servers.iter_mut().enumerate().filter_map(is_drawn).collect()
    }

    /// Ends all faults, and all that are still to come.
    pub(crate) fn heal(&self) {
        for proxy in &self.proxies {
            proxy.spare();
            // A server that is being replaced accepts none.
            drop(proxy.deliver());
        }
    }

    /// The links to servers that a fault affects.
    pub(crate) fn linked(&self, random: &mut Random) -> Vec<&Proxy> {
        drawn(self.proxies.len(), random).into_iter().map(|at| &self.proxies[at]).collect()
    }
}

/// A URL as in production: clients do not wait for an answer for long.
fn impatient(url: &str) -> String {
    url.replace("timeout=20s", "timeout=2s")
}

/// The rights of the clients' user, if there is one: those of holders and operators, and the
/// commands of the data parts, whose keys are among those of holders.
pub(crate) fn rights() -> String {
    let data = REDIS_RIGHTS.split(' ').filter(|right| right.starts_with('+'));
    let locks = [Redis::HOLDER_RIGHTS, Redis::OPERATOR_RIGHTS];
    locks.into_iter().chain(data).collect::<Vec<_>>().join(" ")
}

/// Sets the time without an answer after which a node is taken for dead.
pub(crate) fn set_node_timeout(cluster: &Cluster, timeout: Duration) {
    let set = format!("CONFIG SET cluster-node-timeout {}", timeout.as_millis());
    (0..cluster.size()).for_each(|node| command(cluster.node(node), &set));
}

/// Sends a command to a server by its socket, which no fault affects.
pub(crate) fn command(server: &RedisServer, words: &str) {
    must(server.command::<redis::Value>(words));
}

/// Numbers below a limit; of three, two numbers in one of five cases.
fn drawn(count: usize, random: &mut Random) -> Vec<usize> {
    let first = random.below(count);
    if count > 2 && random.chance(20) { vec![first, (first + 1) % count] } else { vec![first] }
}

/// Declares that all servers of a place are new, however busy the machine is.
fn end_quarantine(url: &str) {
    let runtime = must(Builder::new_current_thread().enable_all().build());
    runtime.block_on(async {
        let client = must(Client::connect(format!("{url}&timeout=30s")).await);
        must(client.admin().end_quarantine().await);
        must(client.close().await);
    });
}
