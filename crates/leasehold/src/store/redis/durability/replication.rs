//! Replicas that must have a grant before it counts.

use std::collections::HashMap;
use std::time::Duration;

use leasehold_core::bugs::{self, Bug};
use leasehold_core::text::show_duration;
use leasehold_core::{StoreError, StoreErrorKind};
use redis::{Cmd, FromRedisValue, Value};

use crate::mutex::Mutex;
use crate::store::redis::connection::Connection;
use crate::store::redis::connection::error;
use crate::store::redis::options::{Address, Replicas, Servers, Settings};

/// How long a WAIT can last beyond its time limit: 200 ms, twice the interval at which the server
/// checks time limits.
pub(crate) const WAIT_SLACK: Duration = Duration::from_millis(200);

/// The number of replicas that must have a grant before it counts, and whether the disk must have
/// it.
#[derive(Debug)]
pub(crate) struct Replication {
    replicas: Replicas,
    on_disk: bool,
    /// How long a grant waits for replicas and the disk: half the timeout of a request.
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
    pub(crate) fn new(settings: &Settings) -> Option<Self> {
        let (replicas, on_disk) = (settings.replicas, settings.waitaof);
        (replicas != Replicas::None || on_disk).then(|| Self {
            replicas,
            on_disk,
            patience: settings.timeout() / 2,
            most_seen: Mutex::default(),
            in_cluster: matches!(settings.servers, Servers::Cluster(_)),
        })
    }

    /// Checks that the server knows the commands and that our user may call them, and counts the
    /// replicas.
    pub(crate) async fn check_server(
        &self,
        connection: &Connection,
    ) -> Result<Option<String>, StoreError> {
        let wait = match self.on_disk {
            true => connection.send(redis::cmd("WAITAOF").arg(1).arg(0).arg(1)).await?,
            false => connection.send(redis::cmd("WAIT").arg(0).arg(1)).await?,
        };
        if let Value::ServerError(refusal) = &wait {
            let details = refusal.details().unwrap_or_default();
            let words = if details.contains("appendonly is disabled") {
                "waitaof=on needs an append-only file: set appendonly yes"
            } else if details.starts_with("unknown command") {
                "waitaof=on needs Redis 7.2 or Valkey 7.2"
            } else {
                return Err(error::refused(connection.server(), refusal));
            };
            let why = format!("{}: {words}", connection.server());
            return Err(StoreError::new(StoreErrorKind::Unsupported, why));
        }
        if self.replicas == Replicas::None {
            return Ok(None);
        }
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

    /// The command that waits until enough replicas have all earlier writes of its connection. With
    /// `waitaof`, it waits for the disks of the replicas and of the server. Its time limit is never
    /// 0: 0 would mean no limit.
    pub(crate) fn wait(&self, needed: u32) -> Cmd {
        let patience_ms = u64::try_from(self.patience.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut wait = redis::cmd(if self.on_disk { "WAITAOF" } else { "WAIT" });
        if self.on_disk {
            wait.arg(1);
        }
        let needed = if bugs::is_on(Bug::WaitsForOneReplica) { needed.min(1) } else { needed };
        wait.arg(needed).arg(patience_ms);
        wait
    }

    /// What is missing in an answer to [`Replication::wait`], if anything.
    pub(crate) fn judge(
        &self,
        connection: &Connection,
        needed: u32,
        value: Value,
    ) -> Result<Option<String>, StoreError> {
        let value = connection.check(value)?;
        let unexpected_reply = || error::unexpected_reply(connection.server(), "WAIT");
        let needed = if bugs::is_on(Bug::WaitsForOneReplica) { needed.min(1) } else { needed };
        let (on_disk, have) = match self.on_disk {
            true => {
                let (own, have) =
                    <(u32, u32)>::from_redis_value(value).map_err(|_| unexpected_reply())?;
                (own > 0, have)
            }
            false => (true, u32::from_redis_value(value).map_err(|_| unexpected_reply())?),
        };
        let span = show_duration(self.patience);
        let where_to = if self.on_disk { " on their disks" } else { "" };
        Ok(if !on_disk {
            Some(format!("the server did not sync its append-only file within {span}: its disk"))
        } else if have < needed {
            Some(format!(
                "{have} of {needed} replicas had the grant{where_to} within {span}: see that all \
                 of them run and follow"
            ))
        } else {
            None
        })
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

pub(crate) fn refusal(server: &str, why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::NotReplicated, format!("{server}: {why}"))
}
