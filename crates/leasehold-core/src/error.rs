//! Errors, with one variant for each possible reaction of a caller.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::holder::{HoldState, Holder, LastHolder};
use crate::lease::LossReason;
use crate::name::{InvalidInput, LockName};
use crate::setters::words;
use crate::text::show_duration;
use crate::token::FencingToken;

/// The error of a call. A busy lock is not an error.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A run has succeeded that began less than [`once_per`](crate::LeaseOptions::once_per) ago.
    /// Nothing is held, and there is nothing to do.
    #[error("{name}: {last}; next in {}", show_duration(*.next_in))]
    #[non_exhaustive]
    AlreadyDone {
        /// The name of the lock.
        name: LockName,
        /// The run that succeeded.
        last: Box<LastHolder>,
        /// The time until a run may begin again.
        next_in: Duration,
    },
    /// The client was closed. Nothing is held.
    #[error("the client was closed")]
    Closed,
    /// A guarded write had an overtaken token: stop, because somebody else is at work.
    #[error("{name}: the write came with token {token}, but {newest} has been seen: stop")]
    #[non_exhaustive]
    Fenced {
        /// The name of the lock.
        name: LockName,
        /// The token of the write.
        token: FencingToken,
        /// The highest token the resource has seen.
        newest: FencingToken,
    },
    /// The client was made before a fork, and belongs to the parent.
    #[error("the client was made before a fork and is the parent's: connect in the child")]
    Forked,
    /// The request got no answer: a grant may exist, for `settles_within` at most.
    #[error(
        "{name}: no answer ({source}); a lease may exist for up to {}",
        show_duration(*.settles_within)
    )]
    #[non_exhaustive]
    Indeterminate {
        /// The name of the lock.
        name: LockName,
        /// After this time at the latest, nothing is held any more.
        settles_within: Duration,
        /// The error of the store.
        source: StoreError,
    },
    /// A name, an option or a URL was refused before anything was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
    /// The caller has lost the lease: stop the work under it.
    #[error("{name}: the lease with token {token} was lost: {reason}")]
    #[non_exhaustive]
    Lost {
        /// The name of the lock.
        name: LockName,
        /// The token of the lost lease.
        token: FencingToken,
        /// The reason for its end.
        reason: LossReason,
    },
    /// The lease cannot be adopted: it has ended, or somebody has adopted it before. Nothing is
    /// held.
    #[error("{name}: the lease with token {token} cannot be adopted: {}", not_adopted(*.reason))]
    #[non_exhaustive]
    NotAdopted {
        /// The name of the lock.
        name: LockName,
        /// The token of the lease.
        token: FencingToken,
        /// The reason for its end; [`LossReason::Vanished`] if the lease was adopted, or has ended
        /// unnoticed.
        reason: LossReason,
    },
    /// The store refused the request, or was not reached. The caller got no grant. If the request
    /// may still be granted ([`StoreError::may_have_executed`]), the keeper cancels it in the
    /// background.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The limit of the wait was reached. Nothing is held.
    #[error(
        "{name}: still busy after {}{}",
        show_duration(*.waited),
        held_by(.holder.as_deref(), *.others, *.own, *.waited)
    )]
    #[non_exhaustive]
    Timeout {
        /// The name of the lock.
        name: LockName,
        /// The time for which the call waited.
        waited: Duration,
        /// The holder at the end, if the store could name it. With several holders, it is one that
        /// certainly blocks the caller, or the first one if the store shows no such holder.
        holder: Option<Box<Holder>>,
        /// The number of other holders; no more than 31 are counted.
        others: u32,
        /// Whether the holder is the client that waited. Usually another task of that client holds
        /// the lock, which is ordinary contention. If the holder has held the lock for the whole
        /// wait, it may be the waiting task itself, which would wait for ever: then use
        /// `Guard::reenter`.
        own: bool,
    },
}

fn not_adopted(reason: LossReason) -> String {
    match reason {
        LossReason::Vanished => {
            "somebody has adopted the lease already, or it has ended".to_owned() //
        }
        LossReason::Closed | LossReason::Expired | LossReason::HeldTooLong => {
            "the lease has ended".to_owned()
        }
        LossReason::Forked | LossReason::Revoked => reason.to_string(),
    }
}

fn held_by(holder: Option<&Holder>, others: u32, own: bool, waited: Duration) -> String {
    let Some(Holder { id, info, held_for, state, ttl_left, .. }) = holder else {
        return String::new();
    };
    // A caller that waits for itself has held the lease since before the wait.
    let hint = match own && *held_for >= waited {
        true => "; if it is the same task: use Guard::reenter",
        false => "",
    };
    let who = info.in_words(*id);
    let (left, held_for) = (show_duration(*ttl_left), show_duration(*held_for));
    let others = match others {
        0 => String::new(),
        others => format!(" and {others} more"),
    };
    match state {
        HoldState::Cooldown => {
            format!(
                ", in cooldown for another {left} by the min_hold of {who}, which has let go\
                 {others}"
            )
        }
        HoldState::Claimed | HoldState::Revoked => {
            let who = if own { format!("a task of this client, {who},") } else { who };
            format!(", held by {who} for {held_for}{others}{hint}")
        }
    }
}

/// A constructor for each variant with fields, for the crates of leasehold. Other crates only match
/// the variants.
#[doc(hidden)]
impl Error {
    /// Makes an [`Error::AlreadyDone`].
    pub fn already_done(name: LockName, last: Box<LastHolder>, next_in: Duration) -> Self {
        Self::AlreadyDone { name, last, next_in }
    }

    /// Makes an [`Error::Indeterminate`].
    pub fn indeterminate(name: LockName, settles_within: Duration, source: StoreError) -> Self {
        Self::Indeterminate { name, settles_within, source }
    }

    /// Makes an [`Error::Lost`].
    pub fn lost(name: LockName, token: FencingToken, reason: LossReason) -> Self {
        Self::Lost { name, token, reason }
    }

    /// Makes an [`Error::NotAdopted`].
    pub fn not_adopted(name: LockName, token: FencingToken, reason: LossReason) -> Self {
        Self::NotAdopted { name, token, reason }
    }

    /// Makes an [`Error::Timeout`].
    pub fn timeout(
        name: LockName,
        waited: Duration,
        holder: Option<Box<Holder>>,
        others: u32,
        own: bool,
    ) -> Self {
        Self::Timeout { name, waited, holder, others, own }
    }
}

impl Error {
    /// Whether the same call may succeed later without any change on this side.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::AlreadyDone { .. } | Self::Indeterminate { .. } | Self::Timeout { .. } => true,
            Self::Store(error) => error.kind().is_transient(),
            _ => false,
        }
    }

    /// The name of the lock, if the error is about one.
    pub fn name(&self) -> Option<&LockName> {
        match self {
            Self::AlreadyDone { name, .. }
            | Self::Fenced { name, .. }
            | Self::Indeterminate { name, .. }
            | Self::Lost { name, .. }
            | Self::NotAdopted { name, .. }
            | Self::Timeout { name, .. } => Some(name),
            Self::Closed | Self::Forked | Self::Invalid(_) | Self::Store(_) => None,
        }
    }
}

/// The kind of trouble with a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// A record, a reply or a file is malformed. It was left as it is.
    Corrupt,
    /// Credentials, an access rule or a file mode forbid the request.
    Denied,
    /// There is no room in memory, on the disk or in the queue.
    Full,
    /// The name is in use as another kind of lock, or with another capacity.
    Mismatch,
    /// Too few nodes of a quorum granted the lease. The client released their grants, but an
    /// unreachable node may keep the name taken until the ttl is over.
    NoQuorum {
        /// The number of nodes that granted the lease.
        granted: u32,
        /// The number of nodes that must grant it.
        needed: u32,
        /// The number of all nodes.
        nodes: u32,
    },
    /// Too few replicas acknowledged the grant, so it does not count. A call that fails with this
    /// error has given the grant back.
    NotReplicated,
    /// The store has lost its memory and waits until old leases have ended.
    Quarantined,
    /// The store did not answer in time.
    Timeout,
    /// There was no connection to the store.
    Unreachable,
    /// The store cannot do what the request asks for.
    Unsupported,
    /// A record or a server has a version that this release does not support.
    Version,
}

impl StoreErrorKind {
    words! {
        Self::Corrupt => "corrupt",
        Self::Denied => "denied",
        Self::Full => "full",
        Self::Mismatch => "mismatch",
        Self::NoQuorum { .. } => "no_quorum",
        Self::NotReplicated => "not_replicated",
        Self::Quarantined => "quarantined",
        Self::Timeout => "timeout",
        Self::Unreachable => "unreachable",
        Self::Unsupported => "unsupported",
        Self::Version => "version",
    }

    /// Whether the trouble may pass by itself: the same request may succeed later without any
    /// change on this side. The keeper then repeats releases that failed.
    pub fn is_transient(self) -> bool {
        self == Self::Full || self.is_outage()
    }

    /// Whether the store is away for now, so that waiters keep waiting. Any other error is an
    /// answer, and the caller gets it immediately. A full store is such an answer: somebody must
    /// make room.
    pub fn is_outage(self) -> bool {
        matches!(
            self,
            Self::NoQuorum { .. }
                | Self::NotReplicated
                | Self::Quarantined
                | Self::Timeout
                | Self::Unreachable
        )
    }
}

/// Trouble with a store. It exposes no type of a driver: the driver's error is kept as the source.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    message: String,
    maybe_executed: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl StoreError {
    /// An error after which it is certain that nothing was done.
    pub fn new(kind: StoreErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), maybe_executed: false, source: None }
    }

    /// The error of a store for an operation or an action that it does not know.
    pub fn unknown_request() -> Self {
        let message =
            "the store does not know this request, which a later release of leasehold has sent";
        Self::new(StoreErrorKind::Unsupported, message)
    }

    /// The same error, for a request that was sent and may have been executed.
    pub fn maybe_executed(mut self) -> Self {
        self.maybe_executed = true;
        self
    }

    /// The same error, for a request that changes nothing, whether it was executed or not.
    pub fn not_executed(mut self) -> Self {
        self.maybe_executed = false;
        self
    }

    /// The same error with its cause.
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The kind of trouble.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the request may still have been executed: it was sent, and no reply came.
    pub fn may_have_executed(&self) -> bool {
        self.maybe_executed
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// The result of a call that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::{ClientId, HolderId, HolderInfo, Mode};

    #[test]
    fn a_wait_that_ended_says_who_was_in_the_way_and_how() {
        let said = |state, others, own, waited| {
            let holder = Holder {
                id: HolderId { client: ClientId(1), attempt: 1 },
                mode: Mode::Exclusive,
                state,
                token: Some(FencingToken::from_micros(1)),
                info: HolderInfo::new("vm", 7).with_label(Some("nightly".to_owned())),
                held_for: Duration::from_secs(9),
                ttl_left: Duration::from_secs(5),
            };
            let (name, waited) = (LockName::new("a").unwrap(), Duration::from_secs(waited));
            let holder = Some(Box::new(holder));
            Error::Timeout { name, waited, holder, others, own }.to_string()
        };
        let alone = said(HoldState::Claimed, 0, false, 2);
        assert_eq!(alone, "a: still busy after 2.0s, held by vm:7 (nightly) for 9.0s");
        assert_eq!(said(HoldState::Claimed, 2, false, 2), format!("{alone} and 2 more"));
        let own = "held by a task of this client, vm:7 (nightly), for 9.0s";
        assert_eq!(
            said(HoldState::Claimed, 0, true, 9),
            format!("a: still busy after 9.0s, {own}; if it is the same task: use Guard::reenter")
        );
        let later = said(HoldState::Claimed, 0, true, 10);
        assert_eq!(later, format!("a: still busy after 10s, {own}"), "another task took it");
        let released = said(HoldState::Cooldown, 0, false, 2);
        assert!(
            released.contains("in cooldown for another 5.0s by the min_hold of vm:7"),
            "{released}"
        );
        let (name, waited) = (LockName::new("a").unwrap(), Duration::from_millis(502));
        let nobody = Error::Timeout { name, waited, holder: None, others: 0, own: false };
        assert_eq!(nobody.to_string(), "a: still busy after 502ms");
    }

    #[test]
    fn a_lease_that_cannot_be_adopted_is_said_why() {
        let (name, token) = (LockName::new("a").unwrap(), FencingToken::from_micros(1));
        let why = |reason| Error::not_adopted(name.clone(), token, reason).to_string();
        assert!(why(LossReason::Vanished).contains("adopted the lease already"));
        assert!(why(LossReason::Expired).contains("the lease has ended"));
        assert!(why(LossReason::Revoked).contains("an operator revoked"));
    }

    #[test]
    fn an_error_says_which_lock_it_is_about_and_whether_it_may_pass() {
        let (name, store) = (LockName::new("a").unwrap(), StoreErrorKind::Unreachable);
        let of_store = |kind| Error::Store(StoreError::new(kind, "gone"));
        let no_quorum = of_store(StoreErrorKind::NoQuorum { granted: 1, needed: 2, nodes: 3 });
        let lost = Error::lost(name.clone(), FencingToken::from_micros(1), LossReason::Expired);
        assert_eq!((Error::Closed.name(), lost.name()), (None, Some(&name)));
        assert!(no_quorum.is_transient() && of_store(store).is_transient());
        assert!(!lost.is_transient() && !of_store(StoreErrorKind::Corrupt).is_transient());
    }

    #[test]
    fn trouble_with_a_store_is_said_as_it_was_put_and_keeps_its_cause() {
        let error = StoreError::new(StoreErrorKind::Timeout, "no answer").maybe_executed();
        assert_eq!(error.to_string(), "no answer");
        assert!(error.may_have_executed() && !error.clone().not_executed().may_have_executed());
        assert!(error.source().is_none());
        let with = error.with_source(fmt::Error);
        assert_eq!(with.source().map(ToString::to_string), Some(fmt::Error.to_string()));
    }

    #[test]
    fn each_kind_of_trouble_has_its_own_word() {
        use StoreErrorKind as Kind;
        let no_quorum = Kind::NoQuorum { granted: 1, needed: 2, nodes: 3 };
        let words =
            [Kind::Corrupt, Kind::NotReplicated, no_quorum, Kind::Version].map(Kind::as_str);
        assert_eq!(words, ["corrupt", "not_replicated", "no_quorum", "version"]);
        let shared = [Kind::Denied, Kind::Full, Kind::Mismatch, Kind::Quarantined, Kind::Timeout];
        let rest = [Kind::Unreachable, Kind::Unsupported].map(Kind::as_str);
        let mut all: Vec<_> =
            words.into_iter().chain(shared.map(Kind::as_str)).chain(rest).collect();
        all.sort_unstable();
        assert_eq!(all, StoreErrorKind::WORDS);
    }

    #[test]
    fn who_waits_rides_out_an_outage_and_is_told_of_everything_else() {
        use StoreErrorKind as Kind;
        let no_quorum = Kind::NoQuorum { granted: 1, needed: 2, nodes: 3 };
        let outages =
            [no_quorum, Kind::NotReplicated, Kind::Quarantined, Kind::Timeout, Kind::Unreachable];
        assert!(outages.iter().all(|kind| kind.is_outage() && kind.is_transient()));
        // Somebody may make room at any time, and then the keeper's releases succeed.
        assert!(!Kind::Full.is_outage() && Kind::Full.is_transient());
        for kind in [Kind::Corrupt, Kind::Denied, Kind::Mismatch, Kind::Unsupported, Kind::Version]
        {
            assert!(!kind.is_outage() && !kind.is_transient(), "{kind:?}");
        }
    }
}
