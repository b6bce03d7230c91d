//! One node of a cluster.

use std::io;

use redis::{FromRedisValue, RedisResult, Value};

use crate::bus::Bus;
use crate::server::{RedisOptions, RedisServer, free_port};

/// The least number of primaries of which one may fail: the others are a majority.
pub(super) const PRIMARIES: usize = 3;

/// After this many milliseconds without an answer, a node counts as failed.
const NODE_TIMEOUT_MS: u64 = 1_000;

/// How often a node is started at most, if another program takes the port of its bus meanwhile.
const START_TRIES: u32 = 5;

/// A node, and how others see it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: RedisServer,
    pub(super) id: String,
    /// The port at which other nodes reach it.
    pub(super) bus_port: u16,
    /// The node is neither killed nor stopped, nor cut off from the others.
    pub(super) answers: bool,
}

impl Node {
    /// Starts a node. `behind` is the bus in front of the node, if there is one, and the number of
    /// the node on it.
    pub(super) fn start(options: &RedisOptions, behind: Option<(&Bus, usize)>) -> io::Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            let listens = free_port()?;
            let (options, bus_port) = match behind {
                None => (options.clone(), listens),
                Some((bus, at)) => {
                    let options = options
                        .clone()
                        .line(format!("cluster-announce-bus-port {}", bus.port(at)))
                        .line(format!("bind-source-addr {}", Bus::address(at)))
                        // Protected mode refuses callers from other addresses than 127.0.0.1.
                        .line("protected-mode no");
                    bus.lead_to(at, listens);
                    (options, bus.port(at))
                }
            };
            let options = options
                .line("cluster-enabled yes")
                // A replica counts once it has an offset, which it has after the first ping.
                .line("repl-diskless-sync-delay 0")
                .line("repl-ping-replica-period 1")
                .line("cluster-announce-ip 127.0.0.1")
                .line(format!("cluster-port {listens}"))
                .line(format!("cluster-node-timeout {NODE_TIMEOUT_MS}"));
            match options.start() {
                Ok(server) => {
                    let id = server.command("CLUSTER MYID").map_err(io::Error::other)?;
                    return Ok(Self { server, id, bus_port, answers: true });
                }
                Err(error) if tries == START_TRIES => return Err(error),
                Err(_) => {}
            }
        }
    }

    pub(super) fn is_ok(&self) -> RedisResult<bool> {
        let info: String = self.server.command("CLUSTER INFO")?;
        Ok(info.contains("cluster_state:ok"))
    }

    /// Whether the node serves, and sees each third of the slots at the given number of nodes.
    pub(super) fn is_ready(&self, nodes_each: usize) -> RedisResult<bool> {
        Ok(self.is_whole(nodes_each)? && self.ranges()?.len() == PRIMARIES)
    }

    /// Whether the node serves, sees each slot at the given number of nodes, and follows its
    /// primary if it has one.
    pub(super) fn is_whole(&self, nodes_each: usize) -> RedisResult<bool> {
        let is_whole = |range: &Range| range.ports.len() == nodes_each;
        Ok(self.is_ok()?
            && self.ranges()?.iter().all(is_whole)
            && !self.server.info("replication")?.contains("master_link_status:down"))
    }

    /// The port of the primary of a slot, if there is one.
    pub(super) fn owner_port(&self, slot: u16) -> RedisResult<Option<u16>> {
        let ranges = self.ranges()?;
        let range = ranges.iter().find(|range| (range.first..=range.last).contains(&slot));
        Ok(range.and_then(|range| range.ports.first().copied()))
    }

    pub(super) fn ranges(&self) -> RedisResult<Vec<Range>> {
        let slots: Vec<Vec<Value>> = self.server.command("CLUSTER SLOTS")?;
        let range = |mut parts: Vec<Value>| {
            let nodes = parts.split_off(2.min(parts.len()));
            let (first, last) = <(u16, u16)>::from_redis_value(Value::Array(parts))?;
            let port = |node| Ok(Vec::<Value>::from_redis_value(node)?.swap_remove(1));
            let ports = nodes.into_iter().map(port).collect::<RedisResult<_>>()?;
            Ok(Range { first, last, ports: Vec::from_redis_value(Value::Array(ports))? })
        };
        slots.into_iter().map(range).collect()
    }
}

/// Slots that one primary serves, and the ports of the primary and of its replicas.
#[derive(Debug)]
pub(super) struct Range {
    first: u16,
    last: u16,
    pub(super) ports: Vec<u16>,
}
