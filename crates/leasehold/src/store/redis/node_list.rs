//! The list of the servers that are the nodes of a quorum. Each server counts once, and all clients
//! must have the same list.
//!
//! The run id distinguishes servers, and is read on every connection, because an address may later
//! lead to another node. Clients identify a node by an id that the node keeps with its locks,
//! together with the clients' lists of nodes.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold_core::text::show_duration;
use leasehold_core::{BoxFuture, StoreError, StoreErrorKind};
use redis::FromRedisValue;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::connection::Connection;
use super::connection::call::{Call, Request};
use super::connection::dial::Admission;
use super::layout::key;
use super::layout::reply::unexpected_reply;
use super::layout::script::{LIST_LIFE, Script};
use super::topology::Topology;
use crate::mutex::Mutex;

/// The interval at which a client stores its list at a node that it uses: one minute.
const LEAVE_EVERY: Duration = Duration::from_mins(1);

/// The delay after which a client that failed to store its list tries again: 1 s.
const LEAVE_AGAIN: Duration = Duration::from_secs(1);

/// The id of a node, and the lists that other clients stored there: the ids of their nodes, and the
/// addresses of those nodes.
type Lists = (String, Vec<(String, String)>);

/// The nodes of a quorum, in the view of one client.
#[derive(Debug)]
pub(crate) struct NodeList(Mutex<Listed>);

#[derive(Debug, Default)]
struct Listed {
    nodes: Vec<ListedNode>,
    /// The ids of all nodes, once they are known.
    list: Option<String>,
    /// Other lists that were found: the ids of their nodes, and the addresses.
    others: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct ListedNode {
    address: String,
    /// The run id of the server to which the address led last, and the connections to it.
    run_id: Option<String>,
    connections: Vec<AbortHandle>,
    /// The id of the node for all clients.
    id: Option<String>,
    /// When to store the list at this node: immediately if `None`. Storing it also removes
    /// `former`, the list from before a node lost its data and got a new id.
    due: Option<Instant>,
    former: Option<String>,
}

/// One node of the list.
#[derive(Clone, Debug)]
pub(crate) struct NodeEntry {
    list: Arc<NodeList>,
    index: usize,
}

impl NodeList {
    /// The nodes at these addresses, without any facts about them yet.
    pub(crate) fn of(addresses: impl IntoIterator<Item = String>) -> Arc<Self> {
        let nodes =
            addresses.into_iter().map(|address| ListedNode { address, ..ListedNode::default() });
        Arc::new(Self(Mutex::new(Listed { nodes: nodes.collect(), ..Listed::default() })))
    }

    pub(crate) fn entry(self: &Arc<Self>, index: usize) -> NodeEntry {
        NodeEntry { list: Arc::clone(self), index }
    }
}

impl Admission for NodeEntry {
    /// Records the server to which a new connection leads. Refuses a server that is already another
    /// node of the list.
    fn admit<'a>(&'a self, connection: &'a Connection) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            match connection.run_id().await {
                Ok(run_id) => self.list.0.lock().enter(self.index, run_id, connection.closer()),
                Err(error) if error.kind() == StoreErrorKind::Denied => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

impl NodeEntry {
    /// Whether it is time to store the list at this node. If so, the caller must do that.
    pub(crate) fn is_due(&self) -> bool {
        let due = &mut self.list.0.lock().nodes[self.index].due;
        let now = Instant::now();
        let is_due = due.is_none_or(|due| now >= due);
        if is_due {
            *due = Some(now + LEAVE_EVERY);
        }
        is_due
    }

    /// Stores the list at this node, and reads the other lists there. If that takes longer than
    /// `limit`, the client tries again later.
    pub(crate) async fn leave_list(&self, topology: &Topology, prefix: &str, limit: Duration) {
        let call = self.call(prefix);
        match timeout(limit, topology.run(&call)).await {
            Ok(Ok((id, others))) => self.list.0.lock().learn(self.index, &id, others),
            Ok(Err(_)) | Err(_) => {
                self.list.0.lock().nodes[self.index].due = Some(Instant::now() + LEAVE_AGAIN);
            }
        }
    }

    fn call(&self, prefix: &str) -> Call<Lists> {
        let state = self.list.0.lock();
        let former = &state.nodes[self.index].former;
        let [own, former] = [&state.list, former].map(|list| list.clone().unwrap_or_default());
        let args = [new_id(), own, state.addresses(), former];
        let decode = |value| Lists::from_redis_value(value).map_err(|_| unexpected_reply());
        let request = Request::new(Script::Nodes.text());
        Call::new(request.with([key::of_store(prefix, "nodes")], args), decode)
    }

    /// Warnings about the lists of other clients.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.list.0.lock().warnings()
    }
}

impl Listed {
    fn enter(
        &mut self,
        index: usize,
        run_id: &str,
        connection: AbortHandle,
    ) -> Result<(), StoreError> {
        let mut others = self.nodes.iter().enumerate().filter(|(at, _)| *at != index);
        if let Some((_, other)) = others.find(|(_, node)| node.run_id.as_deref() == Some(run_id)) {
            let (other, address) = (&other.address, &self.nodes[index].address);
            let why = format!(
                "{other} and {address} are the same server: a node that counts twice is no \
                 majority; give each once"
            );
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
        let node = &mut self.nodes[index];
        node.connections.retain(|connection| !connection.is_finished());
        if node.run_id.as_deref() != Some(run_id) {
            // An address is one node: connections to the server to which it led before are closed.
            node.connections.drain(..).for_each(|connection| connection.abort());
            node.run_id = Some(run_id.to_owned());
            node.due = None;
        }
        node.connections.push(connection);
        Ok(())
    }

    /// Records a node's reply. If the list has changed, all nodes have to get it.
    fn learn(&mut self, index: usize, id: &str, others: Vec<(String, String)>) {
        let node = &mut self.nodes[index];
        (node.id, node.former) = (Some(id.to_owned()), None);
        let list = self.ids();
        if list != self.list {
            let former = std::mem::replace(&mut self.list, list);
            for node in &mut self.nodes {
                (node.due, node.former) = (None, former.clone());
            }
        }
        for (ids, addresses) in others {
            let is_known = self.others.iter().any(|(known, _)| *known == ids);
            if !is_known && !self.agrees_with(&ids) {
                self.others.push((ids, addresses));
            }
        }
    }

    /// The ids of all nodes, in order, once they are known.
    fn ids(&self) -> Option<String> {
        let mut ids: Vec<_> =
            self.nodes.iter().map(|node| node.id.as_deref()).collect::<Option<_>>()?;
        ids.sort_unstable();
        Some(ids.join(","))
    }

    fn addresses(&self) -> String {
        let each: Vec<_> = self.nodes.iter().map(|node| node.address.as_str()).collect();
        each.join(",")
    }

    fn agrees_with(&self, list: &str) -> bool {
        agree(self.nodes.iter().map(|node| node.id.as_deref()), list)
    }

    fn warnings(&self) -> Vec<String> {
        let own = self.addresses();
        self.others.iter().map(|(_, theirs)| mismatch(&own, theirs)).collect()
    }
}

/// A new random id for a node.
fn new_id() -> String {
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}

/// Whether these nodes can be exactly those of a list. A node whose id is not known can be any.
fn agree<'a>(ids: impl Iterator<Item = Option<&'a str>>, list: &str) -> bool {
    let (ids, listed): (Vec<_>, Vec<_>) = (ids.collect(), list.split(',').collect());
    ids.len() == listed.len() && ids.into_iter().flatten().all(|id| listed.contains(&id))
}

/// The warning that other clients use other nodes: what was found, the risk, and the remedy.
fn mismatch(own: &str, theirs: &str) -> String {
    let life = show_duration(LIST_LIFE);
    let found = match own == theirs {
        true => format!(
            "other clients reach other nodes by the same addresses ({own}), unless one has lost \
             its data within {life}"
        ),
        false => format!("other clients have the nodes {theirs}, and this one has {own}"),
    };
    format!(
        "{found}: each list may have a majority, and two may hold one lock: give all clients the \
         same nodes; a client that stops is forgotten after {life}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_agree_if_each_node_that_is_known_is_among_them() {
        let of = |ids: &[Option<&str>], list| agree(ids.iter().copied(), list);
        assert!(of(&[Some("b"), Some("a"), Some("c")], "a,b,c"));
        assert!(of(&[Some("b"), None, Some("c")], "a,b,c"), "one cannot be asked");
        assert!(!of(&[Some("b"), None, Some("d")], "a,b,c"));
        assert!(!of(&[Some("a"), Some("b"), None], "a,b,c,d,e"), "another number");
    }
}
