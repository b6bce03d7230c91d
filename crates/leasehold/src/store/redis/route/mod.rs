//! Which server serves a key, and what to do when it says that it does not.

mod finder;
mod one;
mod role;
mod sentinel;

use std::sync::Arc;

use leasehold_core::{Invalid, StoreError};
use redis::{PushInfo, ServerErrorKind, Value};
use tokio::sync::mpsc::UnboundedSender;

use self::one::One;
use self::sentinel::Sentinel;
use super::connection::Link;
use super::dial::Dialer;
use super::url::{Place, Settings};
use super::wire::Call;

/// How often a script is loaded for one call: 3 times, for a server whose scripts somebody flushes
/// in between.
const LOAD_TRIES: u32 = 3;

/// The way to the servers of a store.
#[derive(Debug)]
pub(super) enum Route {
    /// One primary, always at the same address.
    One(One),
    /// The primary that sentinels name.
    Sentinel(Sentinel),
}

impl Route {
    /// The way to the place that a URL names. Nothing is opened yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if a file that the URL names cannot be used, or nothing leads to such a place.
    pub(super) fn new(settings: &Settings) -> Result<Self, Invalid> {
        match &settings.place {
            Place::One(address) => {
                let dialer = Arc::new(Dialer::new(settings)?);
                Ok(Self::One(One::new(dialer, address.clone())))
            }
            Place::Sentinel { sentinels, service } => {
                Ok(Self::Sentinel(Sentinel::new(settings, sentinels, service)?))
            }
            Place::Cluster(_) | Place::Quorum(_) => {
                let why = format!("{}: not available in this release", settings.place);
                Err(Invalid::new("url", why))
            }
        }
    }

    /// Runs a script where its keys are served.
    pub(super) async fn evaluate(&self, call: &Call) -> Result<Value, StoreError> {
        match self {
            Self::One(one) => evaluate(&*one.link().await?, call).await,
            Self::Sentinel(sentinel) => sentinel.evaluate(call).await,
        }
    }

    /// The connections to all primaries.
    pub(super) async fn primaries(&self) -> Result<Vec<Arc<Link>>, StoreError> {
        match self {
            Self::One(one) => Ok(vec![one.link().await?]),
            Self::Sentinel(sentinel) => Ok(vec![sentinel.primary().await?]),
        }
    }

    /// A connection to some primary, for what concerns no key.
    pub(super) async fn any(&self) -> Result<Arc<Link>, StoreError> {
        match self {
            Self::One(one) => one.link().await,
            Self::Sentinel(sentinel) => sentinel.primary().await,
        }
    }

    /// Opens a connection of its own on which the messages of all channels can be heard.
    pub(super) async fn listen(
        &self,
        pushes: UnboundedSender<PushInfo>,
    ) -> Result<Link, StoreError> {
        match self {
            Self::One(one) => one.listen(pushes).await,
            Self::Sentinel(sentinel) => sentinel.listen(pushes).await,
        }
    }

    /// Asks whether a connection for messages still lives, and leads to where they are published.
    pub(super) async fn probe(&self, link: &Link) -> Result<(), StoreError> {
        match self {
            Self::One(_) => link.ask(&redis::cmd("PING")).await.map(drop),
            Self::Sentinel(_) => role::expect_primary(link).await,
        }
    }
}

/// Runs a script by its name; a server that does not know it, or has just forgotten it, is given
/// its text.
async fn evaluate(link: &Link, call: &Call) -> Result<Value, StoreError> {
    let mut command = redis::cmd("EVALSHA");
    command.arg(call.script.sha1()).arg(call.keys.len()).arg(&call.keys).arg(&call.args);
    for _ in 0..LOAD_TRIES {
        let value = link.send(&command).await?;
        let is_unknown = matches!(&value, Value::ServerError(refusal)
            if refusal.kind() == Some(ServerErrorKind::NoScript));
        if !is_unknown {
            return link.check(value);
        }
        link.ask(redis::cmd("SCRIPT").arg("LOAD").arg(call.script.source())).await?;
    }
    link.ask(&command).await
}
