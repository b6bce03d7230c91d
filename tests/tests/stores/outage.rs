//! The cost of two leases and a hundred waiters of each of two processes while the store cannot be
//! reached. All of them are served afterwards, on every kind of servers.

use std::io;
use std::time::Duration;

use leasehold_testkit::outage::{Cost, Crowd, Refusing, wait_it_out};
use leasehold_testkit::worker::Worker;
use leasehold_testkit::{Cluster, Data, RedisServer, Replicated, SentinelFleet, must, three_nodes};
use tokio::runtime::Builder;

const PROCESSES: usize = 2;
const WAITERS: usize = 100;

/// Clients of each process in the large tests: as many as a process may have connections for.
const CROWD: usize = 100;

/// Long enough that a client without pauses would ask a thousand times.
const OUTAGE: Duration = Duration::from_secs(6);

/// How often one client dials an address in a second at most. Before it is clear that nothing is
/// there, open connections cause more dials.
const DIALS: (usize, usize) = (4, 10);

/// For a test build on a busy machine; the figures are in evidence/benches/README.md.
const MOST_CPU: f64 = 0.3;
const MOST_MEMORY: u64 = 64 << 20;

/// How many connections to an address there may be in this span.
fn most_dials(span: Duration, clients: usize) -> usize {
    clients * (DIALS.0 * (span.as_secs() as usize + 1) + DIALS.1)
}

fn workers(url: &str, prefix: &str) -> Vec<Worker> {
    workers_of(url, prefix, 1, WAITERS)
}

/// The same of several clients, with several waiters each.
fn workers_of(url: &str, prefix: &str, clients: usize, waiters: usize) -> Vec<Worker> {
    let arguments = ["outage", url, prefix, &clients.to_string(), &waiters.to_string()];
    (0..PROCESSES).map(|_| Worker::start(&arguments)).collect()
}

/// A process of the tests below, whose clients wait.
pub(super) fn job([url, prefix, clients, tasks]: [&str; 4]) {
    let runtime = must(Builder::new_multi_thread().worker_threads(1).enable_all().build());
    let (clients, tasks) = (must(clients.parse()), must(tasks.parse()));
    runtime.block_on(wait_it_out(url, prefix, clients, tasks));
}

/// Looks at the outage while it lasts.
fn watch(crowd: &Crowd, gone: &[Refusing]) {
    std::thread::sleep(OUTAGE);
    let cost @ Cost { span, cpu, memory } = must(crowd.cost());
    println!("{cost:?}");
    assert!(cpu.as_secs_f64() < MOST_CPU * span.as_secs_f64(), "{cost:?}");
    assert!(memory < MOST_MEMORY, "{cost:?}");
    count(gone, span, PROCESSES);
}

/// None of many clients dials the servers that are gone too often.
fn count(gone: &[Refusing], span: Duration, clients: usize) {
    for node in gone {
        println!("{} connections in {span:?}", node.count());
        assert!(node.count() <= most_dials(span, clients), "{} connections", node.count());
    }
}

#[test]
fn a_crowd_of_clients_does_not_stampede_while_its_server_is_away() {
    let mut server = must(RedisServer::start());
    let (crowd, gone) = must(Crowd::wait(workers_of(&server.url(), "w", CROWD, 1), || {
        server.kill9()?;
        Ok([Refusing::at(server.port())?])
    }));
    std::thread::sleep(OUTAGE);
    count(&gone, must(crowd.cost()).span, PROCESSES * CROWD);
    drop(gone);
    must(server.restart(Data::Dropped));
    println!("served after {:?}", crowd.until_served());
}

/// Kills servers while processes wait, looks at that outage, and starts the servers again.
fn endure<S: ?Sized>(
    servers: &mut S,
    workers: Vec<Worker>,
    kill: impl FnOnce(&mut S) -> io::Result<Vec<u16>>,
    restart: impl FnOnce(&mut S),
) {
    let (crowd, gone) = must(Crowd::wait(workers, || {
        kill(servers)?.into_iter().map(Refusing::at).collect::<io::Result<Vec<_>>>()
    }));
    watch(&crowd, &gone);
    drop(gone);
    restart(servers);
    println!("served after {:?}", crowd.until_served());
}

/// Kills servers that are independent, and returns their ports.
fn kill_all(servers: &mut [RedisServer]) -> io::Result<Vec<u16>> {
    servers.iter_mut().try_for_each(RedisServer::kill9)?;
    Ok(servers.iter().map(RedisServer::port).collect())
}

fn restart_all(servers: &mut [RedisServer]) {
    servers.iter_mut().for_each(|server| must(server.restart(Data::Dropped)));
}

#[test]
fn an_outage_of_a_server_costs_its_waiters_little_and_all_are_served_after_it() {
    let mut server = [must(RedisServer::start())];
    let workers = workers(&server[0].url(), "w");
    endure(&mut server[..], workers, kill_all, restart_all);
}

/// The first ones of three nodes are away.
fn endure_without(count: usize) {
    let (mut servers, url) = three_nodes("quarantine=off");
    endure(&mut servers[..count], workers(&url, "w"), kill_all, restart_all);
}

#[test]
fn h2_an_outage_of_a_majority_costs_its_waiters_little_and_all_are_served_after_it() {
    endure_without(2);
}

#[test]
fn h2_an_outage_of_all_nodes_costs_its_waiters_little_and_all_are_served_after_it() {
    endure_without(3);
}

/// The first nodes of a cluster are away, which serve the names with this beginning.
fn endure_in_cluster(mut cluster: Cluster, prefix: &str, count: usize) {
    let workers = workers(&cluster.url(), prefix);
    let kill = |cluster: &mut Cluster| -> io::Result<Vec<u16>> {
        (0..count).try_for_each(|node| cluster.kill(node))?;
        Ok((0..count).map(|node| cluster.node(node).port()).collect())
    };
    endure(&mut cluster, workers, kill, |cluster| {
        (0..count).for_each(|node| must(cluster.restart(node, Data::Dropped)));
    });
}

#[test]
fn an_outage_of_a_cluster_costs_its_waiters_little_and_all_are_served_after_it() {
    let cluster = must(Cluster::start(0));
    let is_lost = |tag: &String| must(cluster.owner(must(cluster.slot_of(tag)))) == 0;
    let tag = (0..).map(|number| format!("{{{number}}}")).find(is_lost).unwrap_or_default();
    endure_in_cluster(cluster, &tag, 1);
}

/// No node is left that knows where anything is.
#[test]
fn an_outage_of_a_whole_cluster_costs_its_waiters_little_and_all_are_served_after_it() {
    endure_in_cluster(must(Cluster::start(0)), "w", 3);
}

/// The sentinels have no replica to put in its place.
#[test]
fn an_outage_of_a_primary_costs_its_waiters_little_and_all_are_served_after_it() {
    let options = RedisServer::options();
    let mut fleet = must(SentinelFleet::start_with(options.clone(), &[0], options));
    let asked = |fleet: &SentinelFleet| -> Vec<u64> {
        let asked =
            |sentinel: &RedisServer| sentinel.number("stats", "total_connections_received:");
        fleet.sentinels().iter().map(|sentinel| must(asked(sentinel))).collect()
    };
    let (crowd, before) = must(Crowd::wait(workers(&fleet.url(), "w"), || {
        fleet.servers_mut()[0].kill9()?;
        Ok(asked(&fleet))
    }));
    watch(&crowd, &[]);
    let span = must(crowd.cost()).span;
    let most = most_dials(span, PROCESSES) as u64;
    for (before, after) in before.into_iter().zip(asked(&fleet)) {
        println!("{} connections to a sentinel", after - before);
        assert!(after - before <= most, "{} connections in {span:?}", after - before);
    }
    must(fleet.servers_mut()[0].restart(Data::Dropped));
    println!("served after {:?}", crowd.until_served());
}

/// Acknowledged replicas, and the layouts that are shared with other programs.
#[test]
fn an_outage_costs_little_whatever_is_asked_of_the_server() {
    let replicated = must(Replicated::start(1));
    let servers = [(); 2].map(|()| must(RedisServer::start()));
    let urls = [
        format!("{}?replicas=1", replicated[0].url()),
        format!("{}?layout=plain", servers[0].url()),
        format!("{}?layout=redisson", servers[1].url()),
    ];
    let workers = urls.iter().flat_map(|url| workers(url, "w")).collect();
    type Both = (Replicated, [RedisServer; 2]);
    let kill = |(replicated, servers): &mut Both| -> io::Result<Vec<u16>> {
        replicated[0].kill9()?;
        let mut ports = kill_all(servers)?;
        ports.push(replicated[0].port());
        Ok(ports)
    };
    endure(&mut (replicated, servers), workers, kill, |(replicated, servers)| {
        must(replicated[0].restart(Data::Dropped));
        restart_all(servers);
    });
}
