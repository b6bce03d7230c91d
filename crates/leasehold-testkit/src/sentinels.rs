//! A primary with replicas, watched by sentinels that fail over.

use std::collections::HashMap;
use std::io::{self, Error};

use redis::RedisResult;

use crate::harness::try_until;
use crate::replicas::Replicated;
use crate::server::{RedisOptions, RedisServer};

/// How many sentinels there are. Two of them are enough to fail over.
const SENTINELS: usize = 3;

/// After 500 ms without an answer, a watched server counts as down.
const DOWN_AFTER: &str = "500";

/// How often sentinels tell each other what they know, and ask servers: at first 100 and 200 ms
/// instead of 2 and 10 s, so that a test does not wait for that.
const AT_FIRST: &str = "SENTINEL DEBUG publish-period 100 info-period 200";

/// Later 1 s. Sentinels that do not know of a failover leave a promoted replica as a primary for
/// four times that long. Then they make it a replica again.
const LATER: &str = "SENTINEL DEBUG publish-period 1000";

/// What a sentinel may do at the servers that it watches and at other sentinels, as a separate user
/// there.
const SEEING: &str = "allchannels allcommands";

/// The rights of a sentinel at a server that it must not see.
const BLIND: &str = "nocommands";

/// The password of those users.
const PASSWORD: &str = "watching";

/// Servers (by number: 0 is the primary at first) and the sentinels that watch them.
#[derive(Debug)]
pub struct SentinelFleet {
    servers: Replicated,
    sentinels: Vec<RedisServer>,
}

impl SentinelFleet {
    /// The name under which the sentinels know the servers.
    pub const SERVICE: &str = "locks";

    /// Starts a primary, a replica and three sentinels, and waits until they know each other.
    pub fn start() -> io::Result<Self> {
        Self::start_with(RedisServer::options(), &[100], RedisServer::options())
    }

    /// Starts a primary, a replica for each of `priorities` and three sentinels, and waits until
    /// they know each other.
    pub fn start_with(
        servers: RedisOptions,
        priorities: &[u32],
        sentinels: RedisOptions,
    ) -> io::Result<Self> {
        let users = (0..SENTINELS).map(|at| format!("{} on >{PASSWORD} {SEEING}", user(at)));
        let with_users = |to: RedisOptions| users.clone().fold(to, |all, user| all.user(&user));
        let servers = Replicated::start_with(with_users(servers), priorities)?;
        let mut options = with_users(sentinels)
            .sentinel()
            .line("sentinel announce-ip 127.0.0.1")
            .line(format!("sentinel monitor {} 127.0.0.1 {} 2", Self::SERVICE, servers[0].port()))
            .line(format!("sentinel down-after-milliseconds {} {DOWN_AFTER}", Self::SERVICE))
            .line(format!("sentinel failover-timeout {} 3000", Self::SERVICE))
            .line(format!("sentinel auth-pass {} {PASSWORD}", Self::SERVICE))
            .line(format!("sentinel sentinel-pass {PASSWORD}"));
        if let Some(certificates) = servers[0].certificates() {
            options = options.certificates(certificates).line("tls-replication yes");
        }
        let mut started = Vec::new();
        for at in 0..SENTINELS {
            let login = format!("sentinel auth-user {} {}", Self::SERVICE, user(at));
            let among_them = format!("sentinel sentinel-user {}", user(at));
            let sentinel = options.clone().line(login).line(among_them).start()?;
            sentinel.command::<()>(AT_FIRST).map_err(Error::other)?;
            started.push(sentinel);
        }
        let fleet = Self { servers, sentinels: started };
        fleet.wait_acquainted()?;
        for sentinel in &fleet.sentinels {
            sentinel.command::<()>(LATER).map_err(Error::other)?;
        }
        Ok(fleet)
    }

    /// Starts a sentinel that knows no others. It names this server as the primary, whatever the
    /// server and the others say.
    pub fn stray(server: &RedisServer) -> io::Result<RedisServer> {
        let watch = format!("sentinel monitor {} 127.0.0.1 {} 99", Self::SERVICE, server.port());
        RedisServer::options().sentinel().line(watch).start()
    }

    /// The store URL of the given sentinels, without credentials.
    pub fn url_of<'a>(sentinels: impl IntoIterator<Item = &'a RedisServer>) -> String {
        let place = |sentinel: &RedisServer| format!("127.0.0.1:{}", sentinel.port());
        let places: Vec<_> = sentinels.into_iter().map(place).collect();
        format!("redis+sentinel://{}/{}", places.join(","), Self::SERVICE)
    }

    /// The servers.
    pub fn servers(&self) -> &Replicated {
        &self.servers
    }

    /// The servers, to kill and restart them.
    pub fn servers_mut(&mut self) -> &mut Replicated {
        &mut self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[RedisServer] {
        &self.sentinels
    }

    /// The sentinels, to kill and restart them.
    pub fn sentinels_mut(&mut self) -> &mut [RedisServer] {
        &mut self.sentinels
    }

    /// The store URL, without credentials.
    pub fn url(&self) -> String {
        let url = Self::url_of(&self.sentinels);
        let is_tls = self.servers[0].certificates().is_some();
        if is_tls { url.replacen("redis", "rediss", 1) } else { url }
    }

    /// The store URL with a user of the servers and its password in it.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        self.url().replacen("://", &format!("://{user}:{password}@"), 1)
    }

    /// Which server the sentinels call the primary; `None` while they do not agree, or while that
    /// server does not say so of itself.
    pub fn primary(&self) -> Option<usize> {
        self.primary_of(0..SENTINELS)
    }

    /// The same, for some of the sentinels.
    fn primary_of(&self, some: impl IntoIterator<Item = usize>) -> Option<usize> {
        let mut named = None;
        let some = some.into_iter().map(|at| &self.sentinels[at]);
        for sentinel in some.filter(|sentinel| sentinel.role().is_some()) {
            let command = format!("SENTINEL GET-MASTER-ADDR-BY-NAME {}", Self::SERVICE);
            let (_, port): (String, u16) = sentinel.command(&command).ok()?;
            if named.is_some_and(|other| other != port) {
                return None;
            }
            named = Some(port);
        }
        let servers = self.servers.servers();
        let at = servers.iter().position(|server| Some(server.port()) == named)?;
        (servers[at].role().as_deref() == Some("master")).then_some(at)
    }

    /// Asks the sentinels to fail over to a replica, and waits until they have. What the primary
    /// has not yet sent to that replica is lost.
    pub fn fail_over(&self) -> io::Result<usize> {
        let before = self.primary().ok_or_else(|| Error::other("there is no primary"))?;
        let command = format!("SENTINEL FAILOVER {}", Self::SERVICE);
        let mut found = None;
        try_until("the sentinels have failed over", || {
            found = self.primary();
            if found == Some(before)
                && let Some(sentinel) = self.sentinels.iter().find(|one| one.role().is_some())
            {
                // A refusal says that a failover is under way, or that no replica is fit yet.
                let _ = sentinel.command::<()>(&command);
            }
            Ok::<_, Error>(found.is_some_and(|primary| primary != before))
        })?;
        found.ok_or_else(|| Error::other("there is no primary"))
    }

    /// Waits until the sentinels that run agree on another primary than `before`.
    pub fn wait_for_another_primary(&self, before: usize) -> io::Result<usize> {
        let mut found = None;
        try_until("another server is the primary", || {
            found = self.primary().filter(|primary| *primary != before);
            Ok::<_, Error>(found.is_some())
        })?;
        found.ok_or_else(|| Error::other("there is no primary"))
    }

    /// Parts a server and a sentinel from all others. The other sentinels do not see the server;
    /// the parted sentinel sees neither them nor the other servers. Clients and replicas still
    /// reach all. If the server is the primary, waits until the other sentinels have replaced it.
    pub fn part(&self, server: usize, sentinel: usize) -> io::Result<()> {
        let others: Vec<usize> = (0..SENTINELS).filter(|at| *at != sentinel).collect();
        let was_primary = self.primary() == Some(server);
        for at in (0..self.servers.servers().len()).filter(|at| *at != server) {
            self.hide(at, &[sentinel]).map_err(Error::other)?;
        }
        others.iter().try_for_each(|at| self.separate(sentinel, *at)).map_err(Error::other)?;
        self.hide(server, &others).map_err(Error::other)?;
        try_until("the sentinels that do not see the primary replace it", || {
            let found = self.primary_of(others.iter().copied());
            Ok(!was_primary || found.is_some_and(|primary| primary != server))
        })
    }

    /// Parts all sentinels from each other.
    pub fn scatter(&self) -> RedisResult<()> {
        let pairs = (0..SENTINELS).flat_map(|one| (0..one).map(move |other| (one, other)));
        pairs.into_iter().try_for_each(|(one, other)| self.separate(one, other))
    }

    /// Lets all sentinels see each other and all servers again.
    pub fn rejoin(&self) -> RedisResult<()> {
        for sentinel in &self.sentinels {
            (0..SENTINELS).try_for_each(|at| set_rights(sentinel, at, SEEING))?;
            // A sentinel that was restarted meanwhile may not have known this.
            sentinel.command::<()>("SENTINEL FLUSHCONFIG")?;
        }
        (0..self.servers.servers().len()).try_for_each(|server| self.show(server))
    }

    /// Parts two sentinels from each other.
    fn separate(&self, one: usize, other: usize) -> RedisResult<()> {
        set_rights(&self.sentinels[one], other, BLIND)?;
        set_rights(&self.sentinels[other], one, BLIND)
    }

    /// Hides a server from some of the sentinels, which then also change nothing there: it refuses
    /// all their commands. Clients and replicas reach it as before.
    pub fn hide(&self, server: usize, from: &[usize]) -> RedisResult<()> {
        from.iter().try_for_each(|at| set_rights(&self.servers[server], *at, BLIND))
    }

    /// Lets all sentinels see a server again.
    pub fn show(&self, server: usize) -> RedisResult<()> {
        (0..SENTINELS).try_for_each(|at| set_rights(&self.servers[server], at, SEEING))?;
        // A sentinel that saw the server may have made it save its configuration, with rights of
        // the other sentinels that are outdated now.
        self.servers[server].command("CONFIG REWRITE")
    }

    /// Waits until every sentinel that runs knows all others and all replicas, and can fail over.
    pub fn wait_acquainted(&self) -> io::Result<()> {
        try_until("the sentinels know each other and the replicas", || {
            let mut running = self.sentinels.iter().filter(|sentinel| sentinel.role().is_some());
            Ok(running.all(|sentinel| self.knows_all(sentinel).unwrap_or(false)))
        })
    }

    /// Waits until no sentinel takes the primary for dead: such sentinels might replace it.
    pub fn wait_primary_seen(&self) -> io::Result<()> {
        try_until("all sentinels see the primary", || {
            let flags = |sentinel| Self::flags_of_primary(sentinel).map_err(Error::other);
            let flags = self.sentinels.iter().map(flags).collect::<io::Result<Vec<_>>>()?;
            Ok::<_, Error>(flags.iter().all(|flags| flags == "master"))
        })
    }

    /// The flags that a sentinel has for the primary.
    fn flags_of_primary(sentinel: &RedisServer) -> RedisResult<String> {
        let command = format!("SENTINEL MASTER {}", Self::SERVICE);
        let mut watched: HashMap<String, String> = sentinel.command(&command)?;
        Ok(watched.remove("flags").unwrap_or_default())
    }

    fn knows_all(&self, sentinel: &RedisServer) -> RedisResult<bool> {
        let watched: HashMap<String, String> =
            sentinel.command(&format!("SENTINEL MASTER {}", Self::SERVICE))?;
        let replicas: Vec<HashMap<String, String>> =
            sentinel.command(&format!("SENTINEL REPLICAS {}", Self::SERVICE))?;
        let others = (self.sentinels.len() - 1).to_string();
        Ok(watched.get("flags").is_some_and(|flags| flags == "master")
            && watched.get("num-other-sentinels") == Some(&others)
            && replicas.len() + 1 == self.servers.servers().len()
            && replicas.iter().all(|replica| {
                replica.get("flags").is_some_and(|flags| flags == "slave")
                    && replica.get("master-link-status").is_some_and(|status| status == "ok")
            }))
    }
}

/// The user name of a sentinel at the servers, and at the other sentinels.
fn user(sentinel: usize) -> String {
    format!("sentinel-{sentinel}")
}

/// Sets the rights of a sentinel at a server, or at another sentinel.
fn set_rights(at: &RedisServer, sentinel: usize, rights: &str) -> RedisResult<()> {
    at.command(&format!("ACL SETUSER {} {rights}", user(sentinel)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_that_do_not_see_the_primary_replace_it_while_it_goes_on() {
        let options = RedisServer::options();
        let fleet = SentinelFleet::start_with(options.clone(), &[100, 100], options).unwrap();
        fleet.hide(0, &[0, 1, 2]).unwrap();
        fleet.wait_for_another_primary(0).unwrap();
        assert_eq!(fleet.servers()[0].role().as_deref(), Some("master"));
        fleet.servers()[0].command::<()>("SET a 1").unwrap();
        fleet.show(0).unwrap();
        fleet.servers().wait_in_sync().unwrap();
        fleet.wait_acquainted().unwrap();
        assert_eq!(fleet.servers()[0].role().as_deref(), Some("slave"));
    }

    #[test]
    fn a_sentinel_that_is_parted_with_the_primary_still_names_it_until_all_meet() {
        let options = RedisServer::options();
        let fleet = SentinelFleet::start_with(options.clone(), &[100, 100], options).unwrap();
        fleet.part(0, 0).unwrap();
        assert_eq!(fleet.primary_of([0]), Some(0));
        assert_ne!(fleet.primary_of([1, 2]), Some(0));
        fleet.rejoin().unwrap();
        fleet.servers().wait_in_sync().unwrap();
        fleet.wait_acquainted().unwrap();
        assert!(fleet.primary().is_some_and(|primary| primary != 0));
    }

    #[test]
    fn sentinels_that_are_parted_from_each_other_replace_nobody() {
        let options = RedisServer::options();
        let fleet = SentinelFleet::start_with(options.clone(), &[100, 100], options).unwrap();
        fleet.scatter().unwrap();
        fleet.hide(0, &[0, 1, 2]).unwrap();
        for sentinel in fleet.sentinels() {
            try_until("it takes the primary for dead", || {
                let flags = SentinelFleet::flags_of_primary(sentinel)?;
                Ok::<_, redis::RedisError>(flags.contains("s_down"))
            })
            .unwrap();
        }
        assert_eq!(fleet.primary(), Some(0));
        fleet.show(0).unwrap();
        fleet.wait_primary_seen().unwrap();
        fleet.rejoin().unwrap();
        fleet.wait_acquainted().unwrap();
        assert_eq!(fleet.primary(), Some(0));
    }
}
