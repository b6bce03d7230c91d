//! Replicas that must have a grant before it counts.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::text::show_duration;
use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, FromRedisValue, Value};

use crate::mutex::Mutex;
use crate::store::redis::connection::{Connection, error};
use crate::store::redis::options::{Address, RedisOptions, Replicas, Servers};

/// How long a WAIT can last beyond its time limit: 200 ms, twice the interval at which the server
/// checks time limits.
pub(crate) const WAIT_SLACK: Duration = Duration::from_millis(200);

/// The number of replicas that must have a grant before it counts.
#[derive(Debug)]
pub(crate) struct Replication {
    replicas: Replicas,
    /// How long a grant waits for replicas: half the timeout of a request.
    patience: Duration,
    /// The largest number of replicas that each primary of this store was seen to have. A replica
    /// that has gone does not lower the number: it may come back as the primary, without the grants
    /// of the meantime. In a cluster each primary has its own number, which a replica that takes
    /// over inherits; otherwise there is one.
    most_seen: Mutex<HashMap<Option<Address>, u32>>,
    in_cluster: bool,
}

impl Replication {
    /// The conditions of the settings; `None` if they have none.
    pub(crate) fn new(settings: &RedisOptions) -> Option<Self> {
        (settings.replicas != Replicas::None).then(|| Self {
            replicas: settings.replicas,
            patience: settings.timeout() / 2,
            most_seen: Mutex::default(),
            in_cluster: matches!(settings.servers, Servers::Cluster(_)),
        })
    }

    /// Checks that our user may call the commands, and counts the replicas.
    pub(crate) async fn check_server(
        &self,
        connection: &Connection,
    ) -> Result<Option<String>, StoreError> {
        connection.check(connection.send(redis::cmd("WAIT").arg(0).arg(1)).await?)?;
        let online = count(connection, connection.send(&redis::cmd("ROLE")).await?)?;
        self.note(connection.address(), online);
        let needed = self.needed(connection.address());
        Ok((online < needed).then(|| {
            format!(
                "{}: {online} replicas follow the server, and {needed} are needed (replicas=): \
                 nothing is granted until they do",
                connection.server()
            )
        }))
    }

    /// The number of replicas that are needed now. It is at least one: "all replicas" would promise
    /// nothing without any replica.
    pub(crate) fn needed(&self, primary: &Address) -> u32 {
        match self.replicas {
            Replicas::All => (*self.most_seen.lock().entry(self.of(primary)).or_default()).max(1),
            Replicas::AtLeast(count) => count,
            Replicas::None => 0,
        }
    }

    /// Whether each exchange counts the replicas anew, because one may have been added.
    pub(crate) fn is_counting(&self) -> bool {
        self.replicas == Replicas::All
    }

    /// Records the number of replicas of the primary.
    pub(crate) fn note(&self, primary: &Address, online: u32) {
        let mut seen = self.most_seen.lock();
        let most = seen.entry(self.of(primary)).or_default();
        *most = online.max(*most);
    }

    /// Records that a replica has taken over from a primary. The other replicas of that primary,
    /// and the primary itself, may come back as replicas of the new one.
    pub(crate) fn note_takeover(&self, from: &Address, to: &Address) {
        let most = self.most_seen.lock().get(&self.of(from)).copied();
        if let Some(most) = most {
            self.note(to, most);
        }
    }

    fn of(&self, primary: &Address) -> Option<Address> {
        self.in_cluster.then(|| primary.clone())
    }

    /// The command that waits until enough replicas have all earlier writes of its connection.
    /// Its time limit is never 0: 0 would mean no limit.
    pub(crate) fn wait(&self, needed: u32) -> Cmd {
        let patience_ms = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd("WAIT");
        let needed = if bugs::is_on(Bug::WaitsForOneReplica) { needed.min(1) } else { needed };
        wait.arg(needed).arg(patience_ms);
        wait
    }

    /// Judges the answer to [`Replication::wait`].
    ///
    /// # Errors
    ///
    /// If too few replicas have the writes.
    pub(crate) fn judge(
        &self,
        connection: &Connection,
        needed: u32,
        value: Value,
    ) -> Result<(), StoreError> {
        let value = connection.check(value)?;
        let unexpected_reply = || error::unexpected_reply(connection.server(), "WAIT");
        let needed = if bugs::is_on(Bug::WaitsForOneReplica) { needed.min(1) } else { needed };
        let have = u32::from_redis_value(value).map_err(|_| unexpected_reply())?;
        if have >= needed {
            return Ok(());
        }
        let why = format!(
            "{}: {have} of {needed} replicas had the grant within {}: see that they all run and \
             follow, because until then `replicas=` lets held leases end",
            connection.server(),
            show_duration(self.patience)
        );
        Err(StoreError::new(StoreErrorKind::NotReplicated, why))
    }
}

/// The number of replicas that are online, by the answer to ROLE.
pub(crate) fn count(connection: &Connection, role: Value) -> Result<u32, StoreError> {
    let Value::Array(parts) = connection.check(role)? else {
        return Err(error::unexpected_reply(connection.server(), "ROLE"));
    };
    match &parts[..] {
        [_, _, Value::Array(replicas), ..] => Ok(u32::try_from(replicas.len()).unwrap_or(u32::MAX)),
        // The server is a replica, and has refused the script that was sent before ROLE.
        _ => Ok(0),
    }
}
