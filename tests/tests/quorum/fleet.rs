//! Servers that are the nodes of a quorum, and clients that reach them, each by its own network.

use leasehold::admin::Status;
use leasehold::store::{Memory, Quorum, Redis, Store, connect};
use leasehold::time::FakeClock;
use leasehold::{Client, LockName};
use leasehold_core::{Action, Operation, Reply};
use leasehold_testkit::harness::until;
use leasehold_testkit::{
    Faults, Faulty, Proxy, RedisOptions, RedisServer, SharedStore, Subject, must, options_of,
    quorum_url,
};

/// A busy machine may take longer to answer than a network does.
const TIMEOUT: &str = "500ms";

/// The nodes.
pub(crate) struct Fleet {
    pub(crate) servers: Vec<RedisServer>,
}

impl Fleet {
    /// Independent servers without persistence.
    pub(crate) fn start(count: usize) -> Self {
        Self::start_with(count, &RedisServer::options())
    }

    pub(crate) fn start_with(count: usize, options: &RedisOptions) -> Self {
        Self { servers: (0..count).map(|_| must(options.clone().start())).collect() }
    }

    pub(crate) fn url(&self) -> String {
        url(self.servers.iter().map(RedisServer::port))
    }

    /// The quorum as a store, without a network between.
    pub(crate) async fn store(&self) -> Box<dyn Store> {
        must(connect(&self.url()).await)
    }

    /// The same with timeouts as long as a test may take.
    pub(crate) async fn patient_store(&self) -> Box<dyn Store> {
        self.patient_store_with("").await
    }

    /// The same with these options.
    pub(crate) async fn patient_store_with(&self, options: &str) -> Box<dyn Store> {
        let patient = self.url().replace(TIMEOUT, "20s");
        must(connect(&format!("{patient}&{options}")).await)
    }

    pub(crate) async fn client(&self) -> Client {
        must(Client::connect(self.url()).await)
    }

    pub(crate) fn network(&self) -> Network {
        let proxies = self.servers.iter().map(|server| must(Proxy::start(server.port())));
        Network { proxies: proxies.collect() }
    }

    /// The status of a name on one node.
    pub(crate) async fn seen_by(&self, index: usize, name: &LockName) -> Status {
        let store = must(Redis::open(options_of(&self.servers[index].url())).await);
        let look = Operation::On { name: name.clone(), action: Action::Look { limit: 10 } };
        let reply = must(store.execute(look).await).reply;
        let Reply::Status(status) = reply else { panic!("{reply:?}") };
        *status
    }

    /// Waits until a node has a status of a name that satisfies a condition.
    pub(crate) async fn until(
        &self,
        index: usize,
        name: &LockName,
        is_so: impl Fn(&Status) -> bool,
    ) {
        until("a node says it", async || is_so(&self.seen_by(index, name).await)).await;
    }

    /// Waits until nobody holds a name on a node.
    pub(crate) async fn until_free(&self, index: usize, name: &LockName) {
        self.until(index, name, |status| status.holders.is_empty()).await;
    }
}

/// A client's own network to each node.
pub(crate) struct Network {
    pub(crate) proxies: Vec<Proxy>,
}

impl Network {
    pub(crate) fn url(&self) -> String {
        url(self.proxies.iter().map(Proxy::port))
    }

    pub(crate) async fn client(&self) -> Client {
        must(Client::connect(self.url()).await)
    }

    /// A client that grants nothing on a node that may have forgotten something.
    pub(crate) async fn guarded_client(&self) -> Client {
        must(Client::connect(self.url().replace("quarantine=off", "quarantine=1m")).await)
    }

    /// Lets nothing pass to or from some nodes, or everything again.
    pub(crate) fn swallow(&self, indexes: &[usize], swallow: bool) {
        indexes.iter().for_each(|index| self.proxies[*index].swallow(swallow));
    }
}

pub(crate) fn url(ports: impl Iterator<Item = u16>) -> String {
    quorum_url(ports, &format!("timeout={TIMEOUT}&quarantine=off"))
}

pub(crate) fn name(text: &str) -> LockName {
    must(LockName::new(text))
}

/// A quorum of stores in memory, for tests that need no server.
pub(crate) fn memory_nodes(count: usize, clock: &FakeClock) -> Vec<Memory> {
    (0..count).map(|_| Memory::with_clock(clock.clone())).collect()
}

pub(crate) async fn client_of(nodes: Vec<Box<dyn Store>>, clock: &FakeClock) -> Client {
    let quorum = must(Quorum::with_clock(nodes, clock.clone()));
    must(Client::builder().store(quorum).clock(clock.clone()).build().await)
}

/// Clients of one quorum, each with its own network to each of these nodes.
pub(crate) async fn networked(
    clients: u64,
    nodes: &[SharedStore],
    clock: &FakeClock,
    faults: Faults,
    seed: u64,
) -> (Vec<Faulty>, Vec<Client>) {
    let (mut networks, mut connected) = (Vec::new(), Vec::new());
    for number in 0..clients {
        let mut stores: Vec<Box<dyn Store>> = Vec::new();
        for (index, node) in (0..).zip(nodes) {
            let seed = seed << 16 | number << 8 | index;
            let network = Faulty::new(node.clone(), clock.clone(), faults, seed);
            networks.push(network.clone());
            stores.push(Box::new(network));
        }
        connected.push(client_of(stores, clock).await);
    }
    (networks, connected)
}

/// The subject of a test on a clock that it moves; each client makes a separate quorum.
pub(crate) fn subject(clock: &FakeClock) -> Subject {
    Subject::fake(Memory::with_clock(clock.clone()), clock.clone())
}
