//! The present primary of a service, as named by its sentinels.
//!
//! A connection is used for as long as it lives and its server accepts writes, even if no sentinel
//! can be reached meanwhile. Sentinels are asked only for a new connection.

pub(super) mod discovery;
mod switches;

use std::sync::Arc;

use leasehold_core::{StoreError, StoreErrorKind};

use self::discovery::Discovery;
use super::pool::Pool;
use super::role::expect_primary;
use crate::store::redis::connection::call::Call;
use crate::store::redis::connection::pushes::PushSender;
use crate::store::redis::connection::{Connection, Failure};
use crate::store::redis::durability::Server;

/// How many times one call follows the primary to another server: 3. Each time, the new server has
/// just said that it is the primary. More moves would mean that roles change faster than a client
/// can ask.
const MOVES: u32 = 3;

/// Routes requests to the primary that sentinels name.
#[derive(Debug)]
pub(crate) struct Sentinel {
    pub(super) pool: Pool<Discovery>,
}

impl Sentinel {
    /// Runs a script on the primary. If the server says that it is no longer a primary, nothing was
    /// executed, and the same call goes to the new primary.
    pub(super) async fn run<A>(&self, call: &Call<A>) -> Result<A, StoreError> {
        let mut outcome = Err(changing());
        for _ in 0..MOVES {
            let server = match call.request.script.is_read_only {
                true => self.primary().await?,
                false => self.pool.to(&()).await?,
            };
            outcome = server.run(call, false).await.map_err(Failure::into);
            match &outcome {
                Err(error) if !error.may_have_executed() && !server.is_alive() => {}
                Ok(_) | Err(_) => break,
            }
        }
        outcome
    }

    /// A server that has just said that it is the primary.
    ///
    /// A primary that became a replica refuses writes. But it answers reads with old data, in which
    /// the lock may still be held, and accepts messages that nobody receives.
    pub(super) async fn primary(&self) -> Result<Arc<Server>, StoreError> {
        for _ in 0..MOVES {
            let server = self.pool.to(&()).await?;
            match expect_primary(&server).await {
                Ok(()) => return Ok(server),
                Err(_) if !server.is_alive() => {}
                Err(error) => return Err(error),
            }
        }
        Err(changing())
    }

    /// Opens a connection for messages to the server that gets the requests.
    pub(super) async fn listen(&self, pushes: PushSender) -> Result<Connection, StoreError> {
        let primary = self.primary().await?;
        self.pool.opener.dial_for_messages(primary.address(), pushes).await
    }
}

fn changing() -> StoreError {
    let why = "the primary changes faster than its sentinels can tell: what does their log say?";
    StoreError::new(StoreErrorKind::Unreachable, why)
}
