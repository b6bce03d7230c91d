//! Faults of the nodes of a cluster, and of their links.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{Cluster, Data, must};

use super::replication::{keep_off, let_back};
use crate::place::{LONG_NODE_TIMEOUT, Place, Servers, set_node_timeout};
use crate::plan::Plan;
use crate::random::Random;

/// The bus is cut for less than this if the cut must have no effect.
const BUS_CUT: Duration = Duration::from_secs(2);

/// After this long without an answer, a node counts as dead if its replica must take over.
const SHORT_NODE_TIMEOUT: Duration = Duration::from_secs(1);

/// A replica that takes over misses the writes of at most this time.
const MISSED: Duration = Duration::from_millis(400);

/// A primary and its replica.
const NODES_EACH: usize = 2;

/// Moves the slot of a name to another node.
pub(super) fn move_slot(place: &mut Place, random: &mut Random) {
    let names = place.plan.names;
    let cluster = nodes(place);
    let mut slot = || must(cluster.slot_of(&Plan::name(random.below(names))));
    let (from, to) = (slot(), slot());
    let (owner, to) = (must(cluster.owner(from)), must(cluster.owner(to)));
    if to != owner {
        must(cluster.move_slot(from, to));
    }
}

/// Cuts the bus between a primary and all other nodes. If the place may forget, until its replica
/// has taken over, and a while longer. Otherwise for less than the timeout of nodes.
pub(super) fn cut_bus(place: &mut Place, random: &mut Random) {
    let (slot, node) = place.slot_of_a_name(random);
    let is_replaced = !place.quarantine.is_zero();
    let span = random.up_to(if is_replaced { place.hang.1 } else { BUS_CUT });
    let cluster = nodes(place);
    if is_replaced {
        fall_behind(cluster, node, random);
        set_node_timeout(cluster, SHORT_NODE_TIMEOUT);
    }
    cluster.cut_bus(node);
    if is_replaced {
        must(cluster.until_taken_over(slot, node));
    }
    thread::sleep(span);
    cluster.mend_bus();
    if is_replaced {
        let_back(cluster.node(node));
        settle(cluster);
    }
}

/// Kills a primary; it comes back empty once its replica has taken over.
pub(super) fn kill_primary(place: &mut Place, random: &mut Random) {
    let (slot, node) = place.slot_of_a_name(random);
    let cluster = nodes(place);
    fall_behind(cluster, node, random);
    set_node_timeout(cluster, SHORT_NODE_TIMEOUT);
    must(cluster.kill(node));
    must(cluster.until_taken_over(slot, node));
    must(cluster.restart(node, Data::Dropped));
    settle(cluster);
}

/// Kills a primary; it comes back empty before a node takes it for dead, and empties its replica.
pub(super) fn restart_empty(place: &mut Place, random: &mut Random) {
    let (_, node) = place.slot_of_a_name(random);
    let span = random.up_to(place.hang.1);
    let cluster = nodes(place);
    must(cluster.kill(node));
    thread::sleep(span);
    must(cluster.restart(node, Data::Dropped));
    settle(cluster);
}

/// Makes a replica take over that lacks writes, against its primary, or against all nodes.
pub(super) fn take_over(place: &mut Place, random: &mut Random) {
    let (slot, node) = place.slot_of_a_name(random);
    let how = random.one_of(&["FORCE", "TAKEOVER"]);
    let cluster = nodes(place);
    let replica = must(cluster.replica_of(node));
    fall_behind(cluster, node, random);
    // In twice this time, a node votes only once for replicas of one primary.
    set_node_timeout(cluster, SHORT_NODE_TIMEOUT);
    must(cluster.node(replica).command::<()>(&format!("CLUSTER FAILOVER {how}")));
    must(cluster.until_taken_over(slot, node));
    let_back(cluster.node(node));
    settle(cluster);
}

/// Delays the replica of a node for a while, so that it misses writes.
fn fall_behind(cluster: &Cluster, node: usize, random: &mut Random) {
    keep_off(cluster.node(node));
    thread::sleep(random.up_to(MISSED));
}

/// Waits until everything is as before, except for the roles of primaries and replicas.
fn settle(cluster: &Cluster) {
    must(cluster.until_whole(NODES_EACH));
    set_node_timeout(cluster, LONG_NODE_TIMEOUT);
}

fn nodes(place: &mut Place) -> &mut Cluster {
    let Servers::Cluster(cluster) = &mut place.servers else { panic!("no cluster") };
    cluster
}
