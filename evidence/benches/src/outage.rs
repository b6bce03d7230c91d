//! The cost of holding and waiting while a store cannot be reached for a minute. Two clients have
//! two leases and a hundred waiters each; a thousand clients have one waiter each. It also measures
//! how soon all of them are served afterwards.

use std::process::Command;
use std::time::Duration;

use leasehold_testkit::outage::{Cost, Crowd, Refusing, wait_it_out};
use leasehold_testkit::{Cluster, Data, RedisServer, Replicated, SentinelFleet, Worker};

use crate::measure::{number, span};
use crate::outcome::Outcome;
use crate::table::Table;

/// The hidden task of this program: to wait.
pub(crate) const WAIT: &str = "wait-out";

const PROCESSES: usize = 2;
const OUTAGE: Duration = Duration::from_mins(1);

/// The clients of each process, and the waiters of each client.
#[derive(Clone, Copy)]
struct Clients {
    each: usize,
    waiters: usize,
}

const FEW: Clients = Clients { each: 1, waiters: 100 };
const MANY: Clients = Clients { each: 500, waiters: 1 };

/// Prints a table.
pub(crate) fn run() -> Outcome {
    let title =
        "Outage: what each of two clients with 100 waiters needs, separate names, one minute";
    let heads = ["store", "connects/s", "of a core", "MiB more", "all served after"];
    let mut table = Table::new(title, &heads);
    table.row(server("one server", "", FEW)?);
    table.row(server("the same, 1 000 clients with a waiter each", "", MANY)?);
    for (store, options) in [
        ("the same, layout=plain", "?layout=plain"),
        ("the same, layout=redisson", "?layout=redisson"),
    ] {
        table.row(server(store, options, FEW)?);
    }
    table.row(replicas()?);
    table.row(quorum("a quorum, two of three nodes away", 2)?);
    table.row(quorum("a quorum, all nodes away", 3)?);
    table.row(sentinel()?);
    table.row(sentinels()?);
    table.row(cluster()?);
    table.row(whole_cluster()?);
    println!("{table}");
    Ok(())
}

/// The work of one of the waiting processes.
pub(crate) async fn wait(url: &str, prefix: &str, clients: &str, tasks: &str) -> Outcome {
    wait_it_out(url, prefix, clients.parse()?, tasks.parse()?).await;
    Ok(())
}

fn workers(url: &str, prefix: &str, clients: Clients) -> Outcome<Vec<Worker>> {
    let program = std::env::current_exe()?;
    let start = |_| {
        let mut command = Command::new(&program);
        let Clients { each, waiters } = clients;
        command.args([WAIT, url, prefix, &each.to_string(), &waiters.to_string()]);
        Worker::of(command)
    };
    Ok((0..PROCESSES).map(start).collect())
}

/// Waits until the outage is over, prints its cost, and lets it end.
struct Seen {
    store: &'static str,
    clients: Clients,
    connections: u64,
    crowd: Crowd,
    cost: Cost,
}

impl Seen {
    fn of(
        store: &'static str,
        crowd: Crowd,
        connections: impl FnOnce() -> Outcome<u64>,
    ) -> Outcome<Self> {
        std::thread::sleep(OUTAGE);
        Ok(Self { store, clients: FEW, cost: crowd.cost()?, connections: connections()?, crowd })
    }

    /// The store is back: measures how soon every waiter is served.
    fn row(self) -> [String; 5] {
        let (outage, took) = (self.cost.span.as_secs_f64(), self.crowd.until_served());
        let clients = self.clients.each as f64;
        [
            self.store.to_owned(),
            number(self.connections as f64 / PROCESSES as f64 / clients / outage),
            format!("{:.2} %", self.cost.cpu.as_secs_f64() / clients / outage * 100.0),
            format!("{:.1}", self.cost.memory as f64 / clients / f64::from(1 << 20)),
            span(took),
        ]
    }
}

/// The most connections to one of the absent servers.
fn most(gone: &[Refusing]) -> Outcome<u64> {
    Ok(gone.iter().map(Refusing::count).max().unwrap_or_default() as u64)
}

fn server(store: &'static str, options: &str, clients: Clients) -> Outcome<[String; 5]> {
    let mut server = RedisServer::start()?;
    let url = format!("{}{options}", server.url());
    let (crowd, gone) = Crowd::wait(workers(&url, "w", clients)?, || {
        server.kill9()?;
        Ok([Refusing::at(server.port())?])
    })?;
    let seen = Seen::of(store, crowd, || most(&gone))?;
    drop(gone);
    server.restart(Data::Dropped)?;
    Ok(Seen { clients, ..seen }.row())
}

fn replicas() -> Outcome<[String; 5]> {
    let mut servers = Replicated::start(1)?;
    let url = format!("{}?replicas=1", servers[0].url());
    let (crowd, gone) = Crowd::wait(workers(&url, "w", FEW)?, || {
        servers[0].kill9()?;
        Ok([Refusing::at(servers[0].port())?])
    })?;
    let seen = Seen::of("the same, replicas=1", crowd, || most(&gone))?;
    drop(gone);
    servers[0].restart(Data::Dropped)?;
    Ok(seen.row())
}

fn quorum(store: &'static str, away: usize) -> Outcome<[String; 5]> {
    let mut servers = [RedisServer::start()?, RedisServer::start()?, RedisServer::start()?];
    let hosts = servers.each_ref().map(|server| format!("127.0.0.1:{}", server.port()));
    let url = format!("redis+quorum://{}?quarantine=off", hosts.join(","));
    let (crowd, gone) = Crowd::wait(workers(&url, "w", FEW)?, || {
        let away = &mut servers[..away];
        away.iter_mut().try_for_each(RedisServer::kill9)?;
        away.iter().map(|server| Refusing::at(server.port())).collect::<Result<Vec<_>, _>>()
    })?;
    let seen = Seen::of(store, crowd, || most(&gone))?;
    drop(gone);
    servers[..away].iter_mut().try_for_each(|server| server.restart(Data::Dropped))?;
    Ok(seen.row())
}

/// The sentinels have no replica to put in the primary's place; clients connect to the sentinels.
fn sentinel() -> Outcome<[String; 5]> {
    let options = RedisServer::options();
    let mut fleet = SentinelFleet::start_with(options.clone(), &[0], options)?;
    let (crowd, before) = Crowd::wait(workers(&fleet.url(), "w", FEW)?, || {
        fleet.servers_mut()[0].kill9()?;
        connections(&fleet.sentinels()[0]).map_err(std::io::Error::other)
    })?;
    let since = || Ok(connections(&fleet.sentinels()[0])? - before);
    let seen = Seen::of("the primary of a service (to a sentinel)", crowd, since)?;
    fleet.servers_mut()[0].restart(Data::Dropped)?;
    Ok(seen.row())
}

/// No server is left that knows where the primary is.
fn sentinels() -> Outcome<[String; 5]> {
    let options = RedisServer::options();
    let mut fleet = SentinelFleet::start_with(options.clone(), &[0], options)?;
    let (crowd, gone) = Crowd::wait(workers(&fleet.url(), "w", FEW)?, || {
        fleet.servers_mut()[0].kill9()?;
        fleet.sentinels_mut().iter_mut().try_for_each(RedisServer::kill9)?;
        let all = fleet.servers().servers().iter().take(1).chain(fleet.sentinels());
        all.map(|server| Refusing::at(server.port())).collect::<Result<Vec<_>, _>>()
    })?;
    let seen = Seen::of("the primary of a service and all sentinels", crowd, || most(&gone))?;
    drop(gone);
    fleet.servers_mut()[0].restart(Data::Dropped)?;
    fleet.sentinels_mut().iter_mut().try_for_each(|sentinel| sentinel.restart(Data::Kept))?;
    Ok(seen.row())
}

fn connections(server: &RedisServer) -> Outcome<u64> {
    let stats = server.info("stats")?;
    let line = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    Ok(line.ok_or("no such line in INFO")?.trim().parse()?)
}

fn cluster() -> Outcome<[String; 5]> {
    let mut cluster = Cluster::start(0)?;
    let mut tags = (0..).map(|number| format!("{{{number}}}"));
    let tag = loop {
        let tag = tags.next().ok_or("no tag")?;
        if cluster.owner(cluster.slot_of(&tag)?)? == 0 {
            break tag;
        }
    };
    let (crowd, gone) = Crowd::wait(workers(&cluster.url(), &tag, FEW)?, || {
        cluster.kill(0)?;
        Ok([Refusing::at(cluster.node(0).port())?])
    })?;
    let seen = Seen::of("a node of a cluster", crowd, || most(&gone))?;
    drop(gone);
    cluster.restart(0, Data::Dropped)?;
    Ok(seen.row())
}

fn whole_cluster() -> Outcome<[String; 5]> {
    let mut cluster = Cluster::start(0)?;
    let (crowd, gone) = Crowd::wait(workers(&cluster.url(), "w", FEW)?, || {
        (0..cluster.size()).try_for_each(|node| cluster.kill(node))?;
        let ports = (0..cluster.size()).map(|node| cluster.node(node).port());
        ports.map(Refusing::at).collect::<Result<Vec<_>, _>>()
    })?;
    let seen = Seen::of("all nodes of a cluster", crowd, || most(&gone))?;
    drop(gone);
    (0..cluster.size()).try_for_each(|node| cluster.restart(node, Data::Dropped))?;
    Ok(seen.row())
}
