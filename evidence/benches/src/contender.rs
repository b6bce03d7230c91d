//! Ways to take a lock on Redis and to release it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::Client;
use redis::Script;
use redis::aio::MultiplexedConnection;
use rslock::LockManager;

use crate::outcome::Outcome;

/// Long enough that nothing expires during a measurement, and that leasehold renews nothing in a
/// row that measures pairs.
const TTL: Duration = Duration::from_secs(30);

/// Deletes a key if it still has this value: the release of the Redis documentation.
const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// The contender that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Leasehold,
    /// The guard is dropped instead of released.
    Dropped,
    Raw,
    Rslock,
}

/// A connected contender. Clones share the connection.
#[derive(Clone, Debug)]
pub(crate) enum Contender {
    Leasehold(Client),
    Dropped(Client),
    Raw(MultiplexedConnection, Script),
    Rslock(LockManager),
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Leasehold, Self::Dropped, Self::Raw, Self::Rslock];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Leasehold => "leasehold",
            Self::Dropped => "leasehold, guard dropped",
            Self::Raw => "raw scripts",
            Self::Rslock => "rslock",
        }
    }

    pub(crate) async fn connect(self, url: &str) -> Outcome<Contender> {
        Ok(match self {
            Self::Leasehold => Contender::Leasehold(Client::connect(url).await?),
            Self::Dropped => Contender::Dropped(Client::connect(url).await?),
            Self::Raw => {
                let client = redis::Client::open(url)?;
                let connection = client.get_multiplexed_async_connection().await?;
                Contender::Raw(connection, Script::new(COMPARE_AND_DELETE))
            }
            Self::Rslock => {
                Contender::Rslock(LockManager::from_clients(vec![redis::Client::open(url)?]))
            }
        })
    }
}

impl Contender {
    /// Takes a free lock, or waits as this contender does, and releases it. `entered` is called in
    /// between.
    pub(crate) async fn pair(&self, name: &str, entered: impl FnOnce()) -> Outcome {
        match self {
            Self::Leasehold(client) => {
                let guard = client.mutex(name).ttl(TTL).acquire().await?;
                entered();
                guard.release().await?;
            }
            Self::Dropped(client) => {
                let _guard = client.mutex(name).ttl(TTL).acquire().await?;
                entered();
            }
            Self::Raw(connection, compare_and_delete) => {
                // A number instead of random bytes costs the server the same, and the client less.
                static ATTEMPT: AtomicU64 = AtomicU64::new(0);
                let value = format!("{:032x}", ATTEMPT.fetch_add(1, Ordering::Relaxed));
                let mut connection = connection.clone();
                let mut set = redis::cmd("SET");
                set.arg(name).arg(&value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
                let taken: Option<String> = set.query_async(&mut connection).await?;
                if taken.is_none() {
                    return Err(format!("{name} is not free").into());
                }
                entered();
                let mut release = compare_and_delete.key(name);
                let _: i64 = release.arg(&value).invoke_async(&mut connection).await?;
            }
            Self::Rslock(manager) => {
                let guard = manager.acquire(name, TTL).await?;
                entered();
                guard.release().await;
            }
        }
        Ok(())
    }
}
