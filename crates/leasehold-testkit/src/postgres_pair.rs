//! A PostgreSQL primary and its synchronous standby, which take over from each other.

use std::io::{Error, Result};

use crate::postgres::{Postgres, until_ready};

/// The name of the standby at the primary.
const NAME: &str = "leasehold_pair";

/// Promotes a standby, until it leads. The server may end a session that waits for that.
const PROMOTE: &str = "SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote(false)::text \
                       ELSE 'leads' END";

/// Two servers. One is the primary at any time, and each of its commits waits for the other server.
#[derive(Debug)]
pub struct PostgresPair {
    primary: Postgres,
    standby: Postgres,
}

impl PostgresPair {
    /// Starts both; `None` where PostgreSQL is not installed.
    pub fn start() -> Result<Option<Self>> {
        let name = format!("cluster_name={NAME}");
        let settings = ["shared_buffers=16MB", "fsync=off", &name];
        let Some(primary) = Postgres::start_with(&settings)? else { return Ok(None) };
        let standby = primary.standby()?;
        let pair = Self { primary, standby };
        pair.until_synchronous()?;
        Ok(Some(pair))
    }

    /// The server that leads now.
    pub fn primary(&self) -> &Postgres {
        &self.primary
    }

    /// The server that follows the primary.
    pub fn standby(&self) -> &Postgres {
        &self.standby
    }

    /// The URL of both.
    pub fn url(&self) -> String {
        self.primary.url_with(&self.standby)
    }

    /// Kills the primary, and promotes the standby. There is no standby until [`heal`](Self::heal).
    pub fn fail_over(&mut self) -> Result<()> {
        self.primary.kill9()?;
        self.promote()
    }

    /// Promotes the standby while the primary still runs, as an operator might who cannot see it.
    /// There is no standby until [`heal`](Self::heal).
    pub fn leave_behind(&mut self) -> Result<()> {
        self.promote()
    }

    fn promote(&mut self) -> Result<()> {
        until(&self.standby, PROMOTE, "leads")?;
        std::mem::swap(&mut self.primary, &mut self.standby);
        // The new primary has no standby to wait for yet.
        set_synchronous(&self.primary, "")
    }

    /// Makes the former primary a standby of the present one. When this returns, the standby has
    /// all data.
    pub fn heal(&mut self) -> Result<()> {
        self.standby.follow(&self.primary)?;
        self.until_synchronous()
    }

    /// Waits until the standby has all earlier commits and gets each new commit.
    fn until_synchronous(&self) -> Result<()> {
        set_synchronous(&self.primary, NAME)?;
        let is_so = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        until(&self.primary, is_so, "1")?;
        let position = self.primary.query("SELECT pg_current_wal_flush_lsn()")?;
        let has_it = format!("SELECT pg_last_wal_receive_lsn() >= '{}'", position.trim());
        until(&self.standby, &has_it, "t")
    }
}

fn set_synchronous(server: &Postgres, names: &str) -> Result<()> {
    until(server, &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"), "")?;
    until(server, "SELECT pg_reload_conf()", "t")
}

/// Runs a statement again until it returns this. A server that is busy, or about to lead, refuses
/// some sessions and ends others.
fn until(server: &Postgres, sql: &str, wanted: &str) -> Result<()> {
    until_ready(|| match server.query(sql)?.trim() {
        found if found == wanted => Ok(()),
        found => Err(Error::other(format!("{sql} returned {found}"))),
    })
}
