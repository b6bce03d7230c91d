//! Ways to take a lock in a PostgreSQL database and to give it back.

use std::path::Path;
use std::sync::Arc;

use leasehold::Client;
use tokio_postgres::types::Type;
use tokio_postgres::{Config, NoTls, Statement};

use crate::outcome::Outcome;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Advisory locks of sessions that are kept: they never expire, and have no token.
    Advisory,
    /// A row with a time, in the shape of ShedLock's: no queue, no token.
    Upsert,
    /// A row that each attempt writes and a release deletes, in the shape of `pg_lease`.
    Row,
    Leasehold,
    /// A read lock, which only general steps give.
    LeaseholdReader,
}

/// One of them, connected. Each task has a session, but for ours, which share some.
#[derive(Clone)]
pub(super) enum Contender {
    Leasehold(Client),
    LeaseholdReader(Client),
    Statements(Arc<Vec<Session>>),
}

/// A session with the statements that take a lock and give it back.
pub(super) struct Session {
    client: tokio_postgres::Client,
    acquire: Statement,
    release: Statement,
    /// A number stands for the name.
    has_number: bool,
}

impl Kind {
    /// What others are compared with comes first.
    pub(super) const ALL: [Self; 5] =
        [Self::Advisory, Self::Upsert, Self::Row, Self::Leasehold, Self::LeaseholdReader];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Advisory => "advisory lock, a session kept for it",
            Self::Upsert => "row with a time, as ShedLock",
            Self::Row => "row that is deleted, as pg_lease",
            Self::Leasehold => "leasehold",
            Self::LeaseholdReader => "leasehold, a read lock",
        }
    }

    /// Connects to a server.
    pub(super) async fn connect(self, socket: &Path, tasks: usize) -> Outcome<Contender> {
        let (table, acquire, release) = match self {
            Self::Leasehold => return Ok(Contender::Leasehold(client(socket, tasks).await?)),
            Self::LeaseholdReader => {
                return Ok(Contender::LeaseholdReader(client(socket, tasks).await?));
            }
            Self::Advisory => {
                ("SELECT", "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)")
            }
            Self::Upsert => (
                "CREATE TABLE IF NOT EXISTS timed (name text PRIMARY KEY, until timestamptz, \
                 since timestamptz, owner text)",
                "INSERT INTO timed VALUES ($1, now() + '30 s', now(), 'me') \
                 ON CONFLICT (name) DO UPDATE SET until = excluded.until, since = excluded.since, \
                 owner = excluded.owner WHERE timed.until <= now() RETURNING true",
                "UPDATE timed SET until = now() WHERE name = $1 AND owner = 'me' RETURNING true",
            ),
            Self::Row => (
                "CREATE TABLE IF NOT EXISTS leased (name text PRIMARY KEY, worker text, \
                 until timestamptz)",
                "INSERT INTO leased VALUES ($1, 'me', now() + '30 s') \
                 ON CONFLICT (name) DO UPDATE SET \
                 worker = CASE WHEN leased.until < now() THEN excluded.worker \
                    ELSE leased.worker END, \
                 until = CASE WHEN leased.until < now() THEN excluded.until ELSE leased.until END \
                 RETURNING worker = 'me'",
                "DELETE FROM leased WHERE name = $1 AND worker = 'me' RETURNING true",
            ),
        };
        let mut sessions = Vec::new();
        for _ in 0..tasks {
            let mut config = Config::new();
            config.host_path(socket).user("postgres").dbname("postgres");
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(connection);
            client.batch_execute(table).await?;
            let has_number = self == Self::Advisory;
            let of = [if has_number { Type::INT8 } else { Type::TEXT }];
            let acquire = client.prepare_typed(acquire, &of).await?;
            let release = client.prepare_typed(release, &of).await?;
            sessions.push(Session { client, acquire, release, has_number });
        }
        Ok(Contender::Statements(Arc::new(sessions)))
    }
}

async fn client(socket: &Path, tasks: usize) -> Outcome<Client> {
    let host = socket.display().to_string().replace('/', "%2F");
    let sessions = tasks.max(4);
    let url = format!("postgres://postgres@{host}:5432/postgres?connections={sessions}");
    Ok(Client::connect(&url).await?)
}

impl Contender {
    /// Takes the lock of a task and gives it back.
    pub(super) async fn pair(&self, task: usize) -> Outcome {
        let name = format!("alone/{task}");
        match self {
            Self::Leasehold(client) => client.mutex(name).acquire().await?.release().await?,
            Self::LeaseholdReader(client) => {
                client.rwlock(name).read().acquire().await?.release().await?;
            }
            Self::Statements(sessions) => {
                let Session { client, acquire, release, has_number } = &sessions[task];
                for statement in [acquire, release] {
                    let row = match has_number {
                        true => client.query_one(statement, &[&(task as i64)]).await?,
                        false => client.query_one(statement, &[&name]).await?,
                    };
                    if !row.get::<_, bool>(0) {
                        return Err("somebody else has the lock".into());
                    }
                }
            }
        }
        Ok(())
    }
}
