//! A private cluster that a test starts, hurts and ends: three primaries with a third of the slots
//! each, and a replica for each if asked for.

mod node;

use std::io;
use std::thread;

use leasehold::LockName;
use leasehold_conformance::fresh_number;
use redis::{RedisError, RedisResult};

use self::node::{Node, PRIMARIES};
use crate::bus::Bus;
use crate::harness::{PATIENCE, must, try_until};
use crate::server::{Data, RedisOptions, RedisServer};

/// How many slots a cluster has.
pub const SLOTS: u16 = 16_384;

/// How many keys move with one command.
const MOVED_AT_ONCE: u32 = 100;

/// A running cluster. Nodes 0 to 2 are its primaries at first; node 3 + n is the replica of n.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    /// The forwarders of the bus, if the bus can be cut.
    bus: Option<Bus>,
}

impl Cluster {
    /// Starts three primaries, each with this number of replicas, and waits until they serve.
    pub fn start(replicas_each: usize) -> io::Result<Self> {
        Self::start_with(&RedisOptions::default(), replicas_each)
    }

    /// Starts a cluster with these options.
    pub fn start_with(options: &RedisOptions, replicas_each: usize) -> io::Result<Self> {
        Self::start_on(None, options, replicas_each)
    }

    /// Starts a cluster with these options and with a bus that can be cut.
    pub fn start_with_bus(options: &RedisOptions, replicas_each: usize) -> io::Result<Self> {
        let bus = Bus::start(PRIMARIES * (1 + replicas_each))?;
        Self::start_on(Some(bus), options, replicas_each)
    }

    fn start_on(
        bus: Option<Bus>,
        options: &RedisOptions,
        replicas_each: usize,
    ) -> io::Result<Self> {
        let starting: Vec<io::Result<Node>> = thread::scope(|scope| {
            let nodes = 0..PRIMARIES * (1 + replicas_each);
            let start = |at| Node::start(options, bus.as_ref().map(|bus| (bus, at)));
            let threads: Vec<_> = nodes.map(|at| scope.spawn(move || start(at))).collect();
            let joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|node| node.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let cluster = Self { nodes: starting.into_iter().collect::<io::Result<_>>()?, bus };
        cluster.form(replicas_each).map_err(io::Error::other)?;
        Ok(cluster)
    }

    fn form(&self, replicas_each: usize) -> RedisResult<()> {
        let share = SLOTS / PRIMARIES as u16;
        for (index, node) in (0..).zip(&self.nodes[..PRIMARIES]) {
            let last =
                if index as usize == PRIMARIES - 1 { SLOTS } else { (index + 1) * share } - 1;
            node.server.command::<()>(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
            let range = format!("CLUSTER ADDSLOTSRANGE {} {last}", index * share);
            node.server.command::<()>(&range)?;
        }
        // Each node meets each other node, so that none waits for gossip.
        for (index, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[index + 1..] {
                let (port, bus_port) = (other.server.port(), other.bus_port);
                let meet = format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}");
                node.server.command::<()>(&meet)?;
            }
        }
        for (index, replica) in self.nodes.iter().enumerate().skip(PRIMARIES) {
            let follow = format!("CLUSTER REPLICATE {}", self.nodes[index % PRIMARIES].id);
            try_until("a replica knows its primary", || {
                Ok::<_, RedisError>(replica.server.command::<()>(&follow).is_ok())
            })?;
        }
        self.until_all("every node serves and knows all others", |node| {
            node.is_ready(1 + replicas_each)
        })
    }

    /// The store URL of the cluster, which names its primaries, without credentials.
    pub fn url(&self) -> String {
        let node = |node: &Node| format!("127.0.0.1:{}", node.server.port());
        let seeds: Vec<_> = self.nodes[..PRIMARIES].iter().map(node).collect();
        format!("redis+cluster://{}", seeds.join(","))
    }

    /// The store URL with a user and a password in it.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// How many nodes there are, replicas included.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node is neither killed nor stopped, nor cut off from the others.
    pub fn answers(&self, index: usize) -> bool {
        self.nodes[index].answers
    }

    /// A node's server.
    pub fn node(&self, index: usize) -> &RedisServer {
        &self.nodes[index].server
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> RedisResult<u16> {
        let mut connection = self.answering().server.connection()?;
        redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection)
    }

    /// The node that serves a slot, as a node that answers sees it.
    pub fn owner(&self, slot: u16) -> RedisResult<usize> {
        let port = self.answering().owner_port(slot)?;
        let owner = self.nodes.iter().position(|node| Some(node.server.port()) == port);
        owner.ok_or_else(|| failure(format!("nobody serves slot {slot}")))
    }

    /// How many keys of a slot a node has.
    ///
    /// # Panics
    ///
    /// If the node does not answer.
    pub fn keys_in(&self, node: usize, slot: u16) -> u32 {
        must(self.node(node).command(&format!("CLUSTER COUNTKEYSINSLOT {slot}")))
    }

    /// A name that no other test uses, and its slot, which this node serves.
    ///
    /// # Panics
    ///
    /// If no node answers.
    pub fn fresh_name(&self, node: usize) -> (LockName, u16) {
        loop {
            let name = format!("cluster/{:032x}", fresh_number());
            let slot = must(self.slot_of(&name));
            if must(self.owner(slot)) == node {
                return (must(LockName::new(name)), slot);
            }
        }
    }

    /// Waits until all nodes that answer see a new node serve a slot, and returns the new node.
    pub fn until_taken_over(&self, slot: u16, from: usize) -> RedisResult<usize> {
        let old = self.nodes[from].server.port();
        self.until_all("a replica takes over", |node| {
            let owner = node.owner_port(slot)?;
            Ok(owner.is_some_and(|port| port != old) && node.is_ok()?)
        })?;
        self.owner(slot)
    }

    /// Waits until no node that answers serves any slot, because too many others do not answer.
    pub fn until_down(&self) -> RedisResult<()> {
        self.until_all("the cluster is down", |node| Ok(!node.is_ok()?))
    }

    /// Waits until every node that answers serves again.
    pub fn until_up(&self) -> RedisResult<()> {
        self.until_all("the cluster is up", Node::is_ok)
    }

    /// Waits until every node that answers serves, sees the given number of nodes for each slot,
    /// and follows its primary if it has one.
    pub fn until_whole(&self, nodes_each: usize) -> RedisResult<()> {
        self.until_all("every slot has all its nodes", |node| node.is_whole(nodes_each))
    }

    /// A replica of this primary, as a node that answers sees it.
    pub fn replica_of(&self, primary: usize) -> RedisResult<usize> {
        let port = self.nodes[primary].server.port();
        let ranges = self.answering().ranges()?;
        let of_primary = ranges.iter().find(|range| range.ports.first() == Some(&port));
        let replica = of_primary.and_then(|range| range.ports.get(1));
        let found = self.nodes.iter().position(|node| Some(&node.server.port()) == replica);
        found.ok_or_else(|| failure(format!("node {primary} has no replica")))
    }

    /// Waits until a primary has a replica that follows it.
    pub fn until_replicated(&self, primary: usize) -> RedisResult<()> {
        let server = &self.nodes[primary].server;
        try_until("a replica follows", || Ok(server.info("replication")?.contains("state=online")))
    }

    /// Takes a replica out of the cluster; it continues to run, as a node without a cluster.
    pub fn remove_replica(&self, index: usize) -> RedisResult<()> {
        let removed = &self.nodes[index];
        let forget = format!("CLUSTER FORGET {}", removed.id);
        for node in self.nodes.iter().filter(|node| node.answers && node.id != removed.id) {
            node.server.command::<()>(&forget)?;
        }
        removed.server.command("CLUSTER RESET HARD")
    }

    /// Ends a node as a crash does.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].answers = false;
        self.nodes[index].server.kill9()
    }

    /// Stops the process of a node: to the other nodes, it looks cut off.
    pub fn stop(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].answers = false;
        self.nodes[index].server.stop()
    }

    /// Continues a stopped node.
    pub fn cont(&mut self, index: usize) -> io::Result<()> {
        self.nodes[index].answers = true;
        self.nodes[index].server.cont()
    }

    /// Cuts the bus between a node and all others, in both directions. Clients still reach the
    /// node, and it still replicates to its replicas.
    ///
    /// # Panics
    ///
    /// If the cluster has no bus that can be cut.
    pub fn cut_bus(&mut self, index: usize) {
        self.nodes[index].answers = false;
        self.bus().cut_off(index);
    }

    /// Lets all nodes reach each other again.
    ///
    /// # Panics
    ///
    /// If the cluster has no bus that can be cut.
    pub fn mend_bus(&mut self) {
        if let Some(index) = self.bus().mend() {
            self.nodes[index].answers = true;
        }
    }

    fn bus(&self) -> &Bus {
        let Some(bus) = &self.bus else { panic!("its bus cannot be cut") };
        bus
    }

    /// Starts a node again, as the same member of the cluster.
    pub fn restart(&mut self, index: usize, data: Data) -> io::Result<()> {
        self.nodes[index].server.restart(data)?;
        self.nodes[index].answers = true;
        Ok(())
    }

    /// Moves a slot with all its keys to another node.
    pub fn move_slot(&self, slot: u16, to: usize) -> RedisResult<()> {
        let moving = self.begin_move(slot, to)?;
        moving.move_keys()?;
        moving.finish()
    }

    /// Begins to move a slot. From now on, requests for keys that the slot's node does not have go
    /// to the other node.
    pub fn begin_move(&self, slot: u16, to: usize) -> RedisResult<SlotMove<'_>> {
        let (from, to) = (&self.nodes[self.owner(slot)?], &self.nodes[to]);
        to.server.command::<()>(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", from.id))?;
        from.server.command::<()>(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", to.id))?;
        Ok(SlotMove { cluster: self, slot, from, to })
    }

    /// Waits until a condition is true for every node that answers.
    fn until_all(&self, what: &str, is_so: impl Fn(&Node) -> RedisResult<bool>) -> RedisResult<()> {
        try_until(what, || {
            for node in self.nodes.iter().filter(|node| node.answers) {
                if !is_so(node)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn answering(&self) -> &Node {
        let answering = self.nodes.iter().find(|node| node.answers);
        answering.unwrap_or_else(|| panic!("no node of the cluster answers"))
    }
}

/// A slot on its way to another node.
#[derive(Debug)]
pub struct SlotMove<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: &'a Node,
    to: &'a Node,
}

impl SlotMove<'_> {
    /// Moves the keys that are in the slot now.
    pub fn move_keys(&self) -> RedisResult<()> {
        let mut connection = self.from.server.connection()?;
        loop {
            let mut find = redis::cmd("CLUSTER");
            find.arg("GETKEYSINSLOT").arg(self.slot).arg(MOVED_AT_ONCE);
            let keys: Vec<Vec<u8>> = find.query(&mut connection)?;
            if keys.is_empty() {
                return Ok(());
            }
            let mut migrate = redis::cmd("MIGRATE");
            migrate.arg("127.0.0.1").arg(self.to.server.port()).arg("").arg(0);
            migrate.arg(PATIENCE.as_millis() as u64).arg("KEYS").arg(keys);
            migrate.exec(&mut connection)?;
        }
    }

    /// Assigns the slot to its new node, and tells all nodes that answer.
    pub fn finish(self) -> RedisResult<()> {
        let assign = format!("CLUSTER SETSLOT {} NODE {}", self.slot, self.to.id);
        self.to.server.command::<()>(&assign)?;
        self.from.server.command::<()>(&assign)?;
        let port = Some(self.to.server.port());
        self.cluster
            .until_all("all know where the slot is", |node| Ok(node.owner_port(self.slot)? == port))
    }
}

fn failure(why: String) -> RedisError {
    RedisError::from(io::Error::other(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_primary_whose_bus_is_cut_is_replaced_while_clients_reach_it_and_then_follows() {
        let mut cluster = Cluster::start_with_bus(&RedisOptions::default(), 1).unwrap();
        let (_, slot) = cluster.fresh_name(0);
        cluster.cut_bus(0);
        assert_eq!(cluster.until_taken_over(slot, 0).unwrap(), 3);
        assert_eq!(cluster.node(0).role().as_deref(), Some("master"));
        cluster.mend_bus();
        cluster.until_taken_over(slot, 0).unwrap();
        assert_eq!(cluster.node(0).role().as_deref(), Some("slave"));
    }
}
