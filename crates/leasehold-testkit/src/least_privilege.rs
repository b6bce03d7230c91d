//! Servers that must not get a command that the documented rights do not cover.

use crate::cluster::Cluster;
use crate::harness::must;
use crate::replicas::Replicated;
use crate::sentinels::SentinelFleet;
use crate::server::RedisServer;

/// Servers of a test, one or many.
pub trait Servers {
    /// The servers that answer.
    fn answering(&self) -> Vec<&RedisServer>;
}

impl Servers for RedisServer {
    fn answering(&self) -> Vec<&RedisServer> {
        vec![self]
    }
}

impl Servers for Replicated {
    fn answering(&self) -> Vec<&RedisServer> {
        self.servers().iter().filter(|server| server.role().is_some()).collect()
    }
}

impl Servers for SentinelFleet {
    fn answering(&self) -> Vec<&RedisServer> {
        self.servers().answering()
    }
}

impl Servers for Cluster {
    fn answering(&self) -> Vec<&RedisServer> {
        (0..self.size()).filter(|node| self.answers(*node)).map(|node| self.node(node)).collect()
    }
}

/// Checks that no command was denied so far because of a user's rights.
pub fn assert_nothing_denied(servers: &impl Servers) {
    for server in servers.answering() {
        assert_eq!(must(server.acl_log()), [], "the server at {} denied this", server.port());
    }
}

/// Servers for a test that must end without a denied command.
#[derive(Debug)]
pub struct LeastPrivilege<S: Servers>(pub S);

impl<S: Servers> Drop for LeastPrivilege<S> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_nothing_denied(&self.0);
        }
    }
}
