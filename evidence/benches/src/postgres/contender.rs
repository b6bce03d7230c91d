//! Ways to take a lock in a PostgreSQL database and to release it.

use std::sync::Arc;

use leasehold::Client;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, Statement};

use crate::outcome::Outcome;

/// Where the server is, and how statements go there.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The URL of the server, or of a pooler before it.
    pub(super) url: String,
    /// Whether the server plans each statement of the others anew, as behind a pooler.
    pub(super) is_unnamed: bool,
}

/// The contender that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Advisory locks of sessions that are kept: they never expire, and have no token.
    Advisory,
    /// A row with a time, in the shape of ShedLock's: no queue, no token.
    Upsert,
    Leasehold,
    LeaseholdReader,
}

/// A connected contender. Each task has a session, except for leasehold, whose tasks share some.
#[derive(Clone)]
pub(super) enum Contender {
    Leasehold(Client, Kind),
    Statements(Arc<Vec<Session>>),
}

pub(super) struct Session {
    client: tokio_postgres::Client,
    /// The text of the statements, and their prepared forms.
    statements: [(&'static str, Option<Statement>); 2],
}

impl Kind {
    /// The contender that others are compared with comes first.
    pub(super) const ALONE: [Self; 4] =
        [Self::Advisory, Self::Upsert, Self::Leasehold, Self::LeaseholdReader];
    pub(super) const IN_TURN: [Self; 2] = [Self::Advisory, Self::Leasehold];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Advisory => "advisory lock, a session kept for it",
            Self::Upsert => "row with a time, as ShedLock",
            Self::Leasehold => "leasehold",
            Self::LeaseholdReader => "leasehold, a read lock",
        }
    }

    pub(super) async fn connect(self, place: &Place, tasks: usize) -> Outcome<Contender> {
        let (table, acquire, release) = match self {
            Self::Leasehold | Self::LeaseholdReader => {
                let url = format!("{}&connections={}", place.url, tasks.clamp(4, 8));
                return Ok(Contender::Leasehold(Client::connect(&url).await?, self));
            }
            Self::Advisory => (
                "SELECT",
                "SELECT pg_advisory_lock(hashtextextended($1, 0)) IS NOT NULL",
                "SELECT pg_advisory_unlock(hashtextextended($1, 0))",
            ),
            Self::Upsert => (
                "CREATE TABLE IF NOT EXISTS timed (name text PRIMARY KEY, until timestamptz, \
                 since timestamptz, owner text)",
                "INSERT INTO timed VALUES ($1, now() + '30 s', now(), 'me') \
                 ON CONFLICT (name) DO UPDATE SET until = excluded.until, since = excluded.since, \
                 owner = excluded.owner WHERE timed.until <= now() RETURNING true",
                "UPDATE timed SET until = now() WHERE name = $1 AND owner = 'me' RETURNING true",
            ),
        };
        let mut sessions = Vec::new();
        for _ in 0..tasks {
            let client = session(place).await?;
            client.batch_execute(table).await?;
            let mut statements = [(acquire, None), (release, None)];
            for (text, known) in statements.iter_mut().filter(|_| !place.is_unnamed) {
                *known = Some(client.prepare_typed(text, &[Type::TEXT]).await?);
            }
            sessions.push(Session { client, statements });
        }
        Ok(Contender::Statements(Arc::new(sessions)))
    }
}

pub(super) async fn session(place: &Place) -> Outcome<tokio_postgres::Client> {
    // The rest are options of leasehold.
    let (url, _) = place.url.split_once('?').unwrap_or((&place.url, ""));
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

impl Contender {
    /// Takes and releases the lock of a task.
    pub(super) async fn pair(&self, task: usize) -> Outcome {
        let name = format!("alone/{task}");
        match self {
            Self::Leasehold(client, Kind::LeaseholdReader) => {
                client.rwlock(name).read().acquire().await?.release().await?;
            }
            Self::Leasehold(client, _) => client.mutex(name).acquire().await?.release().await?,
            Self::Statements(sessions) => {
                let Session { client, statements } = &sessions[task];
                for (text, known) in statements {
                    let row = match known {
                        Some(known) => client.query_one(known, &[&name]).await?,
                        None => client.query_typed_one(text, &[(&name, Type::TEXT)]).await?,
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
