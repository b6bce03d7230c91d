//! Where the locks live, and what befalls those places: only what every promise is to survive
//! there, by the tables of GUARANTEES.md.

use std::path::Path;
use std::thread;
use std::time::Duration;

use leasehold::Client;
use leasehold_testkit::{Cluster, Data, RedisServer, Replicated, SentinelFleet, must};
use tokio::runtime::Builder;

use crate::plan::{Modes, Plan};
use crate::random::Random;

/// How long the quarantine of one server is: as long as the longest lease there.
const QUARANTINE: Duration = Duration::from_secs(1);

/// How long a cluster's node may be silent before it counts as dead: on a busy machine it must not,
/// because a replica that takes over by itself has not everything.
const NODE_TIMEOUT: &str = "CONFIG SET cluster-node-timeout 30000";

/// What happens to a place, once each time it is called.
pub(crate) type Trouble = Box<dyn FnMut(&mut Random) + Send>;

/// A kind of place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Cluster,
    File,
    Memory,
    Plain,
    Quarantine,
    Quorum,
    Redisson,
    ReplicasAll,
    ReplicasOne,
    Sentinel,
    Server,
}

/// A place that is ready.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) trouble: Trouble,
}

impl Topology {
    const ALL: [Self; 11] = [
        Self::Cluster,
        Self::File,
        Self::Memory,
        Self::Plain,
        Self::Quarantine,
        Self::Quorum,
        Self::Redisson,
        Self::ReplicasAll,
        Self::ReplicasOne,
        Self::Sentinel,
        Self::Server,
    ];

    pub(crate) fn named(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|topology| topology.name() == name);
        found.unwrap_or_else(|| panic!("no such topology: {name:?}"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::File => "file",
            Self::Memory => "memory",
            Self::Plain => "plain",
            Self::Quarantine => "quarantine",
            Self::Quorum => "quorum",
            Self::Redisson => "redisson",
            Self::ReplicasAll => "replicas-all",
            Self::ReplicasOne => "replicas-one",
            Self::Sentinel => "sentinel",
            Self::Server => "server",
        }
    }

    pub(crate) fn plan(self) -> Plan {
        match self {
            Self::File | Self::Server => Plan::QUICK,
            // One process has it.
            Self::Memory => Plan { processes: 1, clients: 6, ..Plan::QUICK },
            Self::Plain => Plan { modes: Modes::Mutexes, ..Plan::QUICK },
            Self::Redisson => Plan { modes: Modes::Fixed, semaphores: 0, ..Plan::QUICK },
            Self::Quarantine => {
                Plan { ttls: [QUARANTINE / 4, QUARANTINE / 2, QUARANTINE], ..Plan::QUICK }
            }
            // It has no semaphores, and a round of votes that are split is dear.
            Self::Quorum => Plan { tasks: 6, semaphores: 0, ..Plan::WIDE },
            Self::Cluster | Self::Sentinel => Plan::WIDE,
            Self::ReplicasAll | Self::ReplicasOne => Plan::SLOW,
        }
    }

    /// Starts what there must be; a file is in this directory.
    pub(crate) fn start(self, directory: &Path) -> Place {
        match self {
            Self::Cluster => cluster(),
            Self::File => Place::quiet(format!("file:{}", directory.join("locks.db").display())),
            Self::Memory => Place::quiet("memory:".to_owned()),
            Self::Plain => server("?layout=plain", 3),
            Self::Quarantine => quarantine(),
            Self::Quorum => quorum(),
            Self::Redisson => server("?layout=redisson", 4),
            Self::ReplicasAll => replicas("all", 2),
            Self::ReplicasOne => replicas("1", 1),
            Self::Sentinel => sentinel(),
            Self::Server => server("", 4),
        }
    }
}

impl Place {
    fn quiet(url: String) -> Self {
        Self { url, trouble: Box::new(|_| thread::sleep(Duration::from_millis(100))) }
    }
}

/// One server, whose scripts are flushed, whose connections are cut and which, as the last of four
/// troubles, hangs.
fn server(options: &str, troubles: usize) -> Place {
    let server = must(RedisServer::start());
    let url = format!("{}{options}", server.url());
    let trouble = move |random: &mut Random| match random.below(troubles) {
        0 => must(server.command::<()>("SCRIPT FLUSH")),
        1 => must(server.command::<u32>("CLIENT KILL TYPE normal SKIPME yes").map(drop)),
        2 => must(server.command::<u32>("CLIENT KILL TYPE pubsub").map(drop)),
        _ => hang(&server, random.up_to(Duration::from_millis(700))),
    };
    Place { url, trouble: Box::new(trouble) }
}

/// Stops a server for so long.
fn hang(server: &RedisServer, span: Duration) {
    must(server.stop());
    thread::sleep(span);
    must(server.cont());
}

/// Stops a replica for so long that it acknowledges nothing in time, again and again.
fn replicas(policy: &str, count: usize) -> Place {
    let servers = must(Replicated::start(count));
    let url = format!("{}?replicas={policy}", servers[0].url());
    let trouble = move |random: &mut Random| {
        let replica = 1 + random.below(count);
        hang(&servers[replica], hang_of_a_replica(random));
    };
    Place { url, trouble: Box::new(trouble) }
}

/// 0.2 to 0.4 s, about what a grant waits for replicas.
fn hang_of_a_replica(random: &mut Random) -> Duration {
    Duration::from_millis(200) + random.up_to(Duration::from_millis(200))
}

/// A server that forgets everything now and then.
fn quarantine() -> Place {
    let mut server = must(RedisServer::start());
    let url = format!("{}?quarantine={}ms", server.url(), QUARANTINE.as_millis());
    end_quarantine(&url);
    let trouble = move |random: &mut Random| {
        if random.chance(50) {
            must(server.command::<()>("FLUSHALL"));
        } else {
            must(server.restart(Data::Dropped));
        }
        // It grants nothing before the end of the quarantine.
        thread::sleep(QUARANTINE + random.up_to(QUARANTINE));
    };
    Place { url, trouble: Box::new(trouble) }
}

/// Says that all servers of a place are new.
fn end_quarantine(url: &str) {
    let runtime = must(Builder::new_current_thread().enable_all().build());
    runtime.block_on(async {
        let client = must(Client::connect(url).await);
        must(client.admin().end_quarantine().await);
        must(client.close().await);
    });
}

/// Three nodes, of which one hangs, is killed or forgets everything, and sometimes two.
fn quorum() -> Place {
    let mut nodes: Vec<_> = (0..3).map(|_| must(RedisServer::start())).collect();
    let hosts: Vec<_> = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
    let quarantine = Topology::Quorum.plan().longest_ttl();
    let options = format!("quarantine={}ms", quarantine.as_millis());
    let url = format!("redis+quorum://{}?{options}", hosts.join(","));
    end_quarantine(&url);
    let trouble = move |random: &mut Random| {
        let count = if random.chance(80) { 1 } else { 2 };
        let (first, kind) = (random.below(nodes.len()), random.below(3));
        let all = nodes.len();
        let hurt: Vec<_> = (first..first + count).map(|node| node % all).collect();
        for node in &hurt {
            match kind {
                0 => must(nodes[*node].stop()),
                _ => must(nodes[*node].kill9()),
            }
        }
        thread::sleep(random.up_to(Duration::from_secs(1)));
        for node in &hurt {
            match kind {
                0 => must(nodes[*node].cont()),
                _ => must(nodes[*node].restart(Data::Dropped)),
            }
        }
        // One that forgot grants nothing before the end of its quarantine.
        thread::sleep(random.up_to(quarantine * 2));
    };
    Place { url, trouble: Box::new(trouble) }
}

/// Sentinels that fail over when asked to, and replicas that hang. Every grant is on both replicas:
/// a process that starts in the middle of a failover could not know what `all` means.
fn sentinel() -> Place {
    let fleet = must(SentinelFleet::start_with(
        RedisServer::options(),
        &[100, 100],
        RedisServer::options(),
    ));
    let url = format!("{}?replicas=2", fleet.url());
    let trouble = move |random: &mut Random| {
        if random.chance(75) {
            let replica = fleet
                .servers()
                .servers()
                .iter()
                .find(|server| server.role().as_deref() == Some("slave") && random.chance(50));
            if let Some(replica) = replica {
                hang(replica, hang_of_a_replica(random));
            }
        } else {
            must(fleet.fail_over());
            must(fleet.servers().wait_in_sync());
            must(fleet.wait_acquainted());
        }
    };
    Place { url, trouble: Box::new(trouble) }
}

/// Three primaries with a replica each: slots move, and nodes hang.
fn cluster() -> Place {
    let cluster = must(Cluster::start(1));
    for node in 0..cluster.size() {
        must(cluster.node(node).command::<()>(NODE_TIMEOUT));
    }
    let names = Topology::Cluster.plan().names;
    let slot = move |cluster: &Cluster, random: &mut Random| {
        must(cluster.slot_of(&format!("lh:{}", Plan::name(random.below(names)))))
    };
    let url = cluster.url();
    let trouble = move |random: &mut Random| {
        let from = slot(&cluster, random);
        let owner = must(cluster.owner(from));
        match random.below(3) {
            0 | 1 => {
                let to = must(cluster.owner(slot(&cluster, random)));
                if to != owner {
                    must(cluster.move_slot(from, to));
                }
            }
            _ => hang(cluster.node(owner), random.up_to(Duration::from_millis(700))),
        }
    };
    Place { url, trouble: Box::new(trouble) }
}
