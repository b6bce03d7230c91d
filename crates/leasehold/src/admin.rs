//! The methods for operators, which inspect locks and end leases.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use leasehold_core::name::InvalidInput;
use leasehold_core::{Action, FencingToken, LockName, Operation, Reply, Result};

pub use leasehold_core::{
    ClientId, ForeignHolder, HoldState, Holder, HolderId, HolderInfo, LastHolder, Page, PassedOn,
    Status, Waiter,
};

use crate::keeper::Handle;
use crate::replies::{unexpected_reply, unusable_reply};

/// The largest number of holders and of waiters that are listed for one name.
const INSPECT_LIMIT: u32 = 1000;

/// The number of keys on one page of a list. A server scans them in well below a millisecond.
const PAGE: u32 = 500;

/// How often a name is looked at for a token that is not shown, because a fresh grant is shown
/// without its token: 6 times, 100 ms apart. The client of the grant tells it after 100 ms.
const LOOKS: u32 = 6;
const UNTIL_TOLD: Duration = Duration::from_millis(100);

/// The lease that an operator ends: by its token, or by the id of its holder.
///
/// Its text is one of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseId {
    /// The acquire call that was granted. The store knows it from the first moment.
    Holder(HolderId),
    /// The token that the store shows, or that the holder has.
    Token(FencingToken),
}

impl LeaseId {
    /// The lease of this holder: its token, or the holder's id while the token is not known.
    pub fn of(holder: &Holder) -> Self {
        holder.token.map_or(Self::Holder(holder.id), Self::Token)
    }
}

impl From<FencingToken> for LeaseId {
    fn from(token: FencingToken) -> Self {
        Self::Token(token)
    }
}

impl From<HolderId> for LeaseId {
    fn from(holder: HolderId) -> Self {
        Self::Holder(holder)
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holder(holder) => holder.fmt(f),
            Self::Token(token) => token.fmt(f),
        }
    }
}

impl FromStr for LeaseId {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Self, InvalidInput> {
        match text.contains('-') {
            true => text.parse().map(Self::Holder),
            false => text.parse().map(Self::Token),
        }
    }
}

/// Inspects the locks of a store, and ends leases.
#[derive(Clone, Debug)]
pub struct Admin {
    keeper: Handle,
}

impl Admin {
    pub(crate) fn new(keeper: Handle) -> Self {
        Self { keeper }
    }

    /// Names that begin with `prefix` and are held or awaited, at most `limit` of them. Names with
    /// an unreadable record are included: [`inspect`](Self::inspect) says why a record cannot be
    /// read. On a quorum, a name that is held on few of the nodes is listed, too.
    ///
    /// Cost: that of all [pages](Self::page) of 500 keys.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn list(&self, prefix: &str, limit: u32) -> Result<Vec<LockName>> {
        let (mut names, mut after) = (BTreeSet::new(), None);
        loop {
            let page = self.page(prefix, after.as_deref(), PAGE).await?;
            names.extend(page.names);
            after = page.next;
            if after.is_none() || names.len() >= limit as usize {
                return Ok(names.into_iter().take(limit as usize).collect());
            }
        }
    }

    /// A page of the names that begin with `prefix` and are held or awaited. With pages, a caller
    /// that lists the names again and again costs the store little. For the first page `after` is
    /// `None`; for each later one it is the [`next`](Page::next) of the page before.
    ///
    /// A name that exists from the first page to the last is on at least one of the pages. A listed
    /// name can be free when the page arrives, and on a quorum it can have been free all the time:
    /// [`inspect`](Self::inspect) it.
    ///
    /// Cost: a round trip, in which a server scans about `keys` keys of its database, foreign keys
    /// included. If some of them may be locks, a second round trip reads those.
    /// [`scanned`](Page::scanned) counts the keys of both.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`], with [`Unsupported`](crate::error::StoreErrorKind::Unsupported) for
    /// an `after` that is not from a page of this store.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn page(&self, prefix: &str, after: Option<&str>, keys: u32) -> Result<Page> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        let page = Operation::List { prefix, after, keys };
        match self.keeper.here()?.store.execute(page).await?.answer.reply {
            Reply::Page(page) => Ok(page),
            other => Err(unexpected_reply(&other).into()),
        }
    }

    /// The holders and the waiters of a name, and its last run. A snapshot: stale once
    /// read.
    ///
    /// A name that was free is taken by one command, which says only which attempt holds it. And a
    /// lease that is passed on inside a process ([`Lock`](crate::Lock#fairness)) is shown with the
    /// last holder that the client has reported to the store. The client reports each holder that
    /// keeps the lease for 100 ms: then label, token and start are those of that holder. While the
    /// store cannot be reached, the client repeats the report every second.
    ///
    /// Cost: one round trip.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`]: [`Version`](crate::error::StoreErrorKind::Version) for a record of
    /// another release, [`Corrupt`](crate::error::StoreErrorKind::Corrupt) for a damaged one;
    /// [`crate::Error::Invalid`] for a name that is not valid.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn inspect(&self, name: impl AsRef<str>) -> Result<Status> {
        self.status(&LockName::new(name)?).await
    }

    /// Like [`inspect`](Self::inspect), for a name that was checked.
    pub(crate) async fn status(&self, name: &LockName) -> Result<Status> {
        Ok(*self.keeper.here()?.store.inspect(name, INSPECT_LIMIT, None).await?)
    }

    /// Asks the holder of this lease to stop: the holder reports `Revoked` and releases. The lease
    /// is no longer renewed, so its deadline ends it at the latest. Returns `false` if this lease
    /// does not hold the name: a later holder is left alone.
    ///
    /// The token of a fresh grant may not be shown yet ([`inspect`](Self::inspect)): then the call
    /// looks again, for half a second at most. The holder's id is known immediately.
    ///
    /// If the lease was passed on inside a process ([`inspect`](Self::inspect)), give the token of
    /// the shown holder, or a higher token of that lease. The token of a former holder is refused
    /// once the next holder is shown.
    ///
    /// Cost: two round trips with a token, one with a holder's id.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was revoked: call again, or inspect the
    /// name.
    pub async fn revoke(&self, name: impl AsRef<str>, lease: impl Into<LeaseId>) -> Result<bool> {
        self.end(&LockName::new(name)?, lease.into(), false).await
    }

    /// Ends this lease now, and grants the lock to the next waiter. **The holder may
    /// still be at work**, so two holders overlap until the first one notices. Only fencing tokens
    /// protect against that.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the lease was revoked: call again, or inspect the
    /// name.
    pub async fn revoke_now(
        &self,
        name: impl AsRef<str>,
        lease: impl Into<LeaseId>,
    ) -> Result<bool> {
        self.end(&LockName::new(name)?, lease.into(), true).await
    }

    /// Declares that the store is new or has forgotten nothing, which ends a quarantine
    /// (`quarantine=` in the store URL). **Call it only if no earlier lease can be valid**:
    /// otherwise the store may grant a name while a holder whose lease the store has forgotten
    /// still works under it. Returns `false` if the store has no quarantine, so that there was
    /// nothing to end.
    ///
    /// Cost: one round trip for each server; in a cluster some 50 for each primary, because each
    /// slot has its own quarantine.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Store`]; in a cluster also while slots are moving to another server. The
    /// quarantine has then ended for some slots.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the quarantine has ended: call again.
    pub async fn end_quarantine(&self) -> Result<bool> {
        Ok(self.keeper.here()?.store.inner.end_quarantine().await?)
    }

    async fn end(&self, name: &LockName, lease: LeaseId, force: bool) -> Result<bool> {
        let id = match lease {
            LeaseId::Holder(holder) => Some(holder),
            LeaseId::Token(token) => self.holder_of(name, token).await?,
        };
        let Some(id) = id else { return Ok(false) };
        let revoke = Action::Revoke { id, force };
        match self.keeper.here()?.store.apply(name, revoke).await?.answer.reply {
            Reply::Ended(was_held) => Ok(was_held),
            other => Err(unusable_reply(name, &other).into()),
        }
    }

    /// The holder with this token.
    async fn holder_of(&self, name: &LockName, token: FencingToken) -> Result<Option<HolderId>> {
        let clock = &self.keeper.here()?.store.clock;
        for _ in 0..LOOKS {
            let status = self.status(name).await?;
            let seen = holder_with(token, &status);
            let is_fresh = |it: &Holder| it.token.is_none() && it.state != HoldState::Cooldown;
            if seen.is_some() || !status.holders.iter().any(is_fresh) {
                return Ok(seen);
            }
            clock.sleep_until(clock.now() + UNTIL_TOLD).await;
        }
        Ok(None)
    }
}

/// The holder whose lease has this token.
fn holder_with(token: FencingToken, status: &Status) -> Option<HolderId> {
    // Perhaps the client has passed the lease on to the holder of this token, but has not told the
    // store yet.
    let is_of_grant = |holder: &&Holder| {
        holder.token.is_some_and(|seen| seen.micros() == token.micros() && seen <= token)
    };
    let seen = status.holders.iter().filter(is_of_grant).max_by_key(|holder| holder.token);
    seen.map(|holder| holder.id)
}
