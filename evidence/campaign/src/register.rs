//! The protected values: they are read, and written some time later, under a lock and with its
//! token. They are on a separate server without faults, which refuses a write with a lower token
//! than an earlier one; or in the database of the locks, in transactions that call the fence.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::fence::postgres::{FENCE, is_overtaken};
use leasehold_testkit::must;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

use crate::topology::Topology;

/// A value and the highest token so far. Tokens are texts of one length, because numbers of Lua are
/// not wide enough.
const READ: &str = "
    local token = redis.call('HGET', KEYS[1], 'token')
    if token and token > ARGV[1] then return nil end
    redis.call('HSET', KEYS[1], 'token', ARGV[1])
    return redis.call('HGET', KEYS[1], 'value') or '0'";

const WRITE: &str = "
    if redis.call('HGET', KEYS[1], 'token') > ARGV[1] then return 0 end
    redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
    return 1";

/// The values in a database.
pub(crate) const TABLE: &str = "CREATE TABLE register (name text PRIMARY KEY, value bigint)";

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// How long it may take to find the primary.
const PATIENCE: Duration = Duration::from_secs(3);

/// The protected values.
#[derive(Clone)]
pub(crate) enum Register {
    Server(MultiplexedConnection),
    Database(Arc<Database>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    No,
    /// The fence has refused it.
    Overtaken,
    /// The server did not answer.
    Perhaps,
    Yes,
}

impl Register {
    /// The values of a run: in the database with the locks, or on the server with this port.
    pub(crate) async fn of(topology: Topology, url: &str, port: u16) -> Self {
        match topology {
            Topology::Bank => Self::database(url, true),
            Topology::BankUnfenced => Self::database(url, false),
            _ => Self::server(port).await,
        }
    }

    /// Every reply of this server is awaited: it comes, however long this process was stopped.
    pub(crate) async fn server(port: u16) -> Self {
        let server = must(redis::Client::open(format!("redis://127.0.0.1:{port}/")));
        let patient = AsyncConnectionConfig::new();
        let patient = patient.set_connection_timeout(None).set_response_timeout(None);
        Self::Server(must(server.get_multiplexed_async_connection_with_config(&patient).await))
    }

    /// The database with the locks of this URL, as an application finds its primary.
    fn database(url: &str, is_fenced: bool) -> Self {
        let (url, _) = url.split_once('?').unwrap_or((url, ""));
        let mut config: Config = must(url.parse());
        config.target_session_attrs(TargetSessionAttrs::ReadWrite).connect_timeout(PATIENCE);
        // A fault ends all sessions with this name.
        config.application_name("leasehold");
        Self::Database(Arc::new(Database { config, is_fenced, idle: Mutex::default() }))
    }

    /// The longest time between reading a value and writing another.
    pub(crate) fn thought(&self) -> Duration {
        match self {
            Self::Server(_) => Duration::from_millis(10),
            // A process that is stopped is mostly stopped in it.
            Self::Database(_) => Duration::from_millis(200),
        }
    }

    /// The value of a name; none for a token that is too low.
    pub(crate) async fn read(&mut self, name: &str, token: u64) -> Option<u64> {
        match self {
            Self::Server(server) => {
                let mut read = redis::cmd("EVAL");
                read.arg(READ).arg(1).arg(name).arg(text(token));
                must(read.query_async(server).await)
            }
            Self::Database(database) => database.read(name).await.ok(),
        }
    }

    pub(crate) async fn write(&mut self, name: &str, token: u64, value: u64) -> Written {
        match self {
            Self::Server(server) => {
                let mut write = redis::cmd("EVAL");
                write.arg(WRITE).arg(1).arg(name).arg(text(token)).arg(value);
                let is_written: bool = must(write.query_async(server).await);
                if is_written { Written::Yes } else { Written::No }
            }
            Self::Database(database) => database.write(name, token, value).await,
        }
    }
}

pub(crate) struct Database {
    config: Config,
    is_fenced: bool,
    idle: Mutex<Vec<Client>>,
}

impl Database {
    /// Reads as applications do: only the lock protects what follows.
    async fn read(&self, name: &str) -> Result<u64, Error> {
        let session = self.session().await?;
        let sql = format!("SELECT value FROM register WHERE name = '{name}'");
        let value = session.query_opt(&sql, &[]).await?.map_or(0, |row| row.get::<_, i64>(0));
        self.idle.lock().unwrap().push(session);
        Ok(value.cast_unsigned())
    }

    async fn write(&self, name: &str, token: u64, value: u64) -> Written {
        let session = match self.prepare(name, token, value).await {
            Ok(session) => session,
            Err(error) if error.code().is_some_and(|state| is_overtaken(state.code())) => {
                return Written::Overtaken;
            }
            Err(_) => return Written::No,
        };
        match session.batch_execute("COMMIT").await {
            Ok(()) => {
                self.idle.lock().unwrap().push(session);
                Written::Yes
            }
            Err(error) if error.code() == Some(&SqlState::T_R_SERIALIZATION_FAILURE) => Written::No,
            Err(_) => Written::Perhaps,
        }
    }

    /// A transaction that has written.
    async fn prepare(&self, name: &str, token: u64, value: u64) -> Result<Client, Error> {
        let session = self.session().await?;
        let level = LEVELS[(value % 3) as usize];
        session.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}")).await?;
        if self.is_fenced {
            session.execute(FENCE, &[&name, &token.cast_signed()]).await?;
        }
        let write = format!(
            "INSERT INTO register VALUES ('{name}', {value}) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        );
        session.batch_execute(&write).await?;
        Ok(session)
    }

    async fn session(&self) -> Result<Client, Error> {
        let idle = self.idle.lock().unwrap().pop();
        if let Some(session) = idle.filter(|session| !session.is_closed()) {
            return Ok(session);
        }
        let (session, connection) = self.config.connect(NoTls).await?;
        tokio::spawn(connection);
        Ok(session)
    }
}

fn text(token: u64) -> String {
    format!("{token:020}")
}
