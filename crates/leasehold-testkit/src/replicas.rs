//! A primary and the replicas that follow it.

use std::io::{self, Error};
use std::ops::{Index, IndexMut};

use redis::RedisResult;

use crate::harness::try_until;
use crate::server::{RedisOptions, RedisServer};

/// A primary and its replicas, by number: 0 is the primary at first.
#[derive(Debug)]
pub struct Replicated {
    servers: Vec<RedisServer>,
}

impl Replicated {
    /// Starts a primary and the given number of replicas, and waits until they are in sync.
    pub fn start(replicas: usize) -> io::Result<Self> {
        Self::start_with(RedisServer::options(), &vec![100; replicas])
    }

    /// Starts a primary and a replica for each of `priorities` (`replica-priority`: the lowest is
    /// promoted first, 0 never), all with the same options, and waits until they are in sync.
    pub fn start_with(options: RedisOptions, priorities: &[u32]) -> io::Result<Self> {
        let mut options = options
            .line("replica-announce-ip 127.0.0.1")
            // The default waits 5 s for more replicas to come.
            .line("repl-diskless-sync-delay 0")
            .line("repl-ping-replica-period 1");
        if let Some(password) = options.default_password().map(str::to_owned) {
            options = options.line(format!("masterauth {password}"));
        }
        if options.is_tls() {
            options = options.line("tls-replication yes");
        }
        let primary = options.clone().start()?;
        if let Some(certificates) = primary.certificates() {
            options = options.certificates(certificates);
        }
        let options = options.line(format!("replicaof 127.0.0.1 {}", primary.port()));
        let mut servers = vec![primary];
        for priority in priorities {
            let options = options.clone().line(format!("replica-priority {priority}"));
            servers.push(options.start()?);
        }
        let started = Self { servers };
        started.wait_in_sync()?;
        Ok(started)
    }

    /// All servers.
    pub fn servers(&self) -> &[RedisServer] {
        &self.servers
    }

    /// The server that says that it is the primary; `None` while no server says so, or more than
    /// one.
    pub fn primary(&self) -> Option<usize> {
        let is_primary = |at: &usize| self[*at].role().as_deref() == Some("master");
        let mut primaries = (0..self.servers.len()).filter(is_primary);
        let first = primaries.next()?;
        primaries.next().is_none().then_some(first)
    }

    /// Waits until every server that runs, except one primary, follows that primary and has all
    /// that the primary had written when this was called.
    pub fn wait_in_sync(&self) -> io::Result<()> {
        let mut written = None;
        try_until("the replicas are in sync", || {
            let Some(primary) = self.primary() else { return Ok(false) };
            let Ok(info) = self[primary].info("replication") else { return Ok(false) };
            let written = *written.get_or_insert(number(&info, "master_repl_offset"));
            let running = self.servers.iter().filter(|server| server.role().is_some()).count();
            let follows = |(at, server): (usize, &RedisServer)| {
                at == primary || server.role().is_none() || has_all(server, written)
            };
            Ok(info.matches("state=online").count() + 1 == running
                && self.servers.iter().enumerate().all(follows))
        })
    }

    /// Makes a server the primary, whatever it has missed, and lets all others that run follow it.
    pub fn promote(&self, to: usize) -> RedisResult<()> {
        self[to].command::<()>("REPLICAOF NO ONE")?;
        let others = self.servers.iter().enumerate().filter(|(at, _)| *at != to);
        for (_, server) in others.filter(|(_, server)| server.role().is_some()) {
            server.command::<()>(&format!("REPLICAOF 127.0.0.1 {}", self[to].port()))?;
        }
        Ok(())
    }

    /// Stops a replica. Later writes of the primary never reach it, not even after it is continued.
    pub fn cut_off(&self, replica: usize) -> io::Result<()> {
        let primary = self.primary().ok_or_else(|| Error::other("there is no primary"))?;
        self[replica].stop()?;
        // Otherwise the kernel would keep later writes for the stopped process.
        self[primary].command::<u32>("CLIENT KILL TYPE replica").map(drop).map_err(Error::other)
    }

    /// Hands over to a replica that is in sync, by `FAILOVER`: the primary lets clients wait until
    /// the replica has everything. Waits until it is done.
    ///
    /// A replica says only once a second what it has. Sentinels wait as clients do, and would take
    /// the primary for dead before that. So the primary gives up earlier, and is asked again.
    pub fn hand_over(&self, to: usize) -> io::Result<()> {
        let primary = self.primary().ok_or_else(|| Error::other("there is no primary"))?;
        let command = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 200", self[to].port());
        self[primary].command::<()>(&command).map_err(Error::other)?;
        try_until("the replica has taken over", || {
            // It refuses this while it still tries, and as a replica.
            let _ = self[primary].command::<()>(&command);
            Ok(self.primary() == Some(to))
        })
    }
}

impl Index<usize> for Replicated {
    type Output = RedisServer;

    fn index(&self, at: usize) -> &RedisServer {
        &self.servers[at]
    }
}

impl IndexMut<usize> for Replicated {
    fn index_mut(&mut self, at: usize) -> &mut RedisServer {
        &mut self.servers[at]
    }
}

fn has_all(replica: &RedisServer, written: u64) -> bool {
    replica.info("replication").is_ok_and(|info| {
        info.contains("master_link_status:up") && number(&info, "slave_repl_offset") >= written
    })
}

fn number(info: &str, name: &str) -> u64 {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}
