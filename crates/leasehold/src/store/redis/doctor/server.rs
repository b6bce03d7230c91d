//! The report of one server, and its findings.

use std::net::IpAddr;

use leasehold_core::StoreError;
use leasehold_core::text::show_duration;

use super::boot;
use super::config::ServerConfig;
use super::nodes::NodeRecord;
use super::replication;
use super::rights::Rights;
use super::slots;
use crate::store::finding::{Finding, Level, Topic};
use crate::store::redis::connection::dial::Dialer;
use crate::store::redis::connection::info::{Follower, Info};
use crate::store::redis::doctor::clocks::{Offset, ServerClock};
use crate::store::redis::doctor::connect_check::no_info;
use crate::store::redis::options::{Address, RedisOptions, Servers};

/// A report of a server.
#[derive(Debug)]
pub(crate) struct ServerReport {
    pub(crate) server: String,
    /// The server's INFO; `None` if the user may not ask.
    pub(crate) info: Option<Info>,
    config: ServerConfig,
    pub(crate) offset: Option<Offset>,
    pub(crate) node: NodeRecord,
    quarantine: Option<Finding>,
    rights: Rights,
    /// The finding about the slots of a cluster, if the server is a node of one.
    slots: Option<Finding>,
    /// The server accepts clients without a password.
    is_open: bool,
}

impl ServerReport {
    /// Connects to a server and collects the facts about it.
    pub(crate) async fn make(
        settings: &RedisOptions,
        dialer: &Dialer,
        address: &Address,
    ) -> Result<Self, StoreError> {
        let limit = settings.connect_timeout();
        let connection = dialer.dial(address, None).await?;
        let rights = Rights::of(&connection, settings, limit).await?;
        let info = connection.info(limit).await?;
        let offset = Offset::of(&connection, limit).await?;
        let quarantine = boot::finding(&connection, settings, info.as_ref(), offset).await?;
        let node = match settings.servers {
            Servers::Quorum(_) => NodeRecord::read(&connection, settings, offset).await?,
            Servers::Cluster(_) | Servers::Standalone(_) | Servers::Sentinel { .. } => {
                NodeRecord::default()
            }
        };
        let slots = match settings.servers {
            Servers::Cluster(_) => slots::finding(&connection, limit).await?,
            Servers::Standalone(_) | Servers::Quorum(_) | Servers::Sentinel { .. } => None,
        };
        // If the options have no password, the answer is known: the server has accepted the client.
        let is_open = settings.login.password.is_none()
            || dialer.without_login().dial(address, None).await.is_ok();
        // A denied command is not tried, because it would be an entry in the server's ACL LOG.
        let config = match rights.may_read_settings {
            true => ServerConfig::read(&connection, limit).await?,
            false => ServerConfig::default(),
        };
        Ok(Self {
            server: connection.server().to_owned(),
            info,
            config,
            offset,
            node,
            quarantine,
            rights,
            slots,
            is_open,
        })
    }

    /// The replicas of the server.
    pub(crate) fn followers(&self) -> Vec<Follower> {
        self.info.as_ref().map(Info::followers).unwrap_or_default()
    }

    /// The server's clock, unless the user may not ask for the time.
    pub(crate) fn clock(&self) -> Option<ServerClock> {
        let server = || self.server.clone();
        self.offset.map(|offset| ServerClock { server: server(), offset })
    }

    /// The findings about the server.
    pub(crate) fn findings(&self, settings: &RedisOptions) -> Vec<Finding> {
        let mut findings = self.findings_of_any(settings, "a primary", false);
        if let Some(info) = self.info.as_ref().filter(|info| !info.is_replica()) {
            findings.extend(replication::findings(&self.server, info, &self.config, settings));
        }
        findings.extend(self.offset.map(|offset| {
            offset.finding(&self.server).unwrap_or_else(|| {
                let apart = show_duration(offset.bound());
                let found = format!("the server's clock is within {apart} of this machine's");
                Topic(&self.server, "clock").ok(found)
            })
        }));
        findings.extend(self.slots.clone());
        findings.extend(self.quarantine.clone());
        findings.extend(self.rights.findings(&self.server, settings));
        findings.extend(self.protection(settings));
        findings
    }

    /// The findings about the server in case it is promoted.
    pub(crate) fn findings_as_replica(&self, settings: &RedisOptions) -> Vec<Finding> {
        let mut findings = self.findings_of_any(settings, "a replica", true);
        for finding in &mut findings {
            // Nothing depends on the server until it becomes the primary.
            if finding.level == Level::Danger {
                finding.level = Level::Warning;
                finding.found.push_str(", and it may be promoted");
            }
        }
        findings
    }

    fn findings_of_any(
        &self,
        settings: &RedisOptions,
        role: &str,
        as_replica: bool,
    ) -> Vec<Finding> {
        let place = &self.server;
        let Some(info) = &self.info else { return vec![no_info(place)] };
        let in_cluster = matches!(settings.servers, Servers::Cluster(_));
        let incompatible = info
            .incompatibility(in_cluster)
            .filter(|incompatible| !as_replica || incompatible.topic != "role");
        let is = match info.version() {
            Some((name, version)) => format!("the server is {name} {version}, {role}"),
            None => format!("the server is {role}"),
        };
        let role = match incompatible {
            Some(incompatible) => Topic(place, incompatible.topic).danger(
                incompatible.is,
                "nothing can be locked",
                incompatible.remedy,
            ),
            None => Topic(place, "role").ok(is),
        };
        let mut findings = vec![role];
        findings.extend(info.eviction(place));
        let persistence = info.persistence(place, settings);
        findings.extend(persistence.or_else(|| self.sync(info, settings)));
        findings.extend(self.snapshots(info));
        findings
    }

    /// The finding about writes to the append-only file that a power cut would lose.
    fn sync(&self, info: &Info, settings: &RedisOptions) -> Option<Finding> {
        let topic = Topic(&self.server, "persistence");
        let quarantine = settings.quarantine().is_some();
        let is_alone = matches!(settings.servers, Servers::Standalone(_))
            && info.number("connected_slaves") == 0;
        let remedy = settings.or_quarantine("set appendfsync always");
        Some(match (self.config.get("appendfsync")?, quarantine) {
            ("always", true) if is_alone => topic.warning(
                "the append-only file is synced always, and there is a quarantine",
                "a restart forgets nothing, and keeps newcomers out all the same",
                "leave quarantine out of the store URLs",
            ),
            ("always", _) => topic.ok("there is an append-only file, synced always"),
            (how, true) => topic.ok(format!(
                "the append-only file is synced {how}; after a restart the quarantine keeps \
                     newcomers out"
            )),
            ("everysec", false) => topic.warning(
                "the append-only file is synced every second",
                "a power cut forgets the grants of the last one or two seconds",
                remedy,
            ),
            (_, false) => topic.warning(
                "the append-only file is synced when the kernel likes",
                "a power cut forgets the grants of the last half minute",
                remedy,
            ),
        })
    }

    /// The finding about snapshots: by default, a snapshot that fails stops all writes.
    fn snapshots(&self, info: &Info) -> Option<Finding> {
        let failed = info.field("rdb_last_bgsave_status") == Some("err");
        let stops = self.config.get("stop-writes-on-bgsave-error") != Some("no");
        (failed && stops).then(|| {
            Topic(&self.server, "persistence").danger(
                "the last snapshot has failed",
                "the server refuses to write until one succeeds, so nothing can be locked",
                "make room on its disk, or set save \"\" beside the append-only file",
            )
        })
    }

    /// The findings about access to the server, and about its identity.
    fn protection(&self, settings: &RedisOptions) -> Vec<Finding> {
        let topic = Topic(&self.server, "protection");
        let mut findings = Vec::new();
        if !self.is_open {
            findings.push(topic.ok("a password is asked for"));
        } else if settings.login.password.is_some() && settings.login.user.is_none() {
            findings.push(topic.warning(
                "the server asks for no password, and takes any",
                "anybody who reaches its port may end every lock, and no wrong password is noticed",
                "give its default user the password (requirepass), or name none for the store",
            ));
        } else if let (Some(mode), Some(bind)) =
            (self.config.get("protected-mode"), self.config.get("bind"))
        {
            findings.push(exposure(&self.server, mode, bind));
        }
        if !self.rights.may_read_settings {
            let user = settings.login.user();
            findings.push(Topic(&self.server, "settings").warning(
                format!("the user {user} may not read the server's settings"),
                "appendfsync, min-replicas-to-write and protected-mode are not known",
                "run doctor as a user with +config|get",
            ));
        }
        findings
    }
}

/// The finding about who can reach a server without a password.
fn exposure(place: &str, mode: &str, bind: &str) -> Finding {
    let topic = Topic(place, "protection");
    match mode == "no" && !is_loopback(bind) {
        true => topic.danger(
            "the server asks for no password, and protected-mode is off",
            "anybody who reaches its port may end every lock",
            "give its users passwords (ACL SETUSER), and set protected-mode yes",
        ),
        false => topic.ok("only its own machine can reach it"),
    }
}

/// Whether all addresses at which a server listens can only be reached from its machine.
fn is_loopback(bind: &str) -> bool {
    let mut addresses = bind.split_whitespace().map(|address| address.trim_start_matches('-'));
    !bind.is_empty()
        && addresses.all(|address| {
            address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
                || address == "localhost"
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_password_that_everybody_reaches_is_a_danger() {
        let level = |mode, bind| exposure("h:1", mode, bind).level;
        assert_eq!(level("no", "* -::*"), Level::Danger);
        assert_eq!(level("no", ""), Level::Danger);
        assert_eq!(level("no", "127.0.0.1 10.0.0.5"), Level::Danger);
        assert_eq!(level("no", "127.0.0.1 -::1"), Level::Ok);
        assert_eq!(level("yes", "* -::*"), Level::Ok);
    }
}
