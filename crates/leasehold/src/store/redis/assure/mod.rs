//! What must be so before a grant counts: enough replicas have it, and the server has forgotten
//! nothing.
//!
//! Neither changes the scripts of the locks. What is to be known is asked for behind them, on the
//! same connection: the [guard](Quarantine) because only what comes after a grant can tell that
//! nothing was forgotten before it, and [WAIT](Replication) because it counts acknowledgements of
//! what its own connection wrote. Where neither is asked for there is no [`Assurance`] at all, and
//! not a command more.
//!
//! A grant that does not count is left where it is, for whoever asked to take back. Of one attempt
//! two questions may be out, and while a replica hangs the first may be answered "too few replicas"
//! and the second, a moment later, "yours": if the first took the grant back, the lock would go to
//! the next beside a holder that believes the second. Only the owner of the attempt knows what it
//! believes. It asks again; or it gives the attempt up, believes no answer to it any more, and
//! cancels it; an upgrade it takes back with that upgrade's number. So a waiter that was handed a
//! lock keeps it, unbelieved, until its replicas have it: taken back, the lock would be handed
//! through the whole queue and leave nobody in it. If such a waiter dies, the lock is free after
//! its ttl, as after the death of any holder.

mod lanes;
mod quarantine;
mod replication;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use leasehold_core::{Operation, Reply, StoreError};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::OnceCell;

use self::lanes::Lanes;
use self::quarantine::Quarantine;
use self::replication::Replication;
pub(super) use self::replication::WAIT_SLACK;
use super::connection::Link;
use super::dial::Dialer;
use super::error;
use super::route::{LOAD_TRIES, is_unknown_script, load, run};
use super::script::Script;
use super::url::{Address, Settings};
use super::wire::Call;

/// What a store asks for before a grant counts.
#[derive(Debug)]
pub(super) struct Assurance {
    quarantine: Option<Quarantine>,
    replication: Option<Replication>,
}

/// What hangs on the reply of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stake {
    /// It may give somebody the lease of another, who has handed it out.
    Adoption,
    /// It may grant what nobody held: an acquire.
    Grant,
    /// It may confirm what was granted in its absence: a poll.
    HandOver,
    /// It may make a reader the writer.
    Mode,
    /// It may give back what its holder had and the server has forgotten.
    Reclaim,
    /// It may prolong what its holder has: a renewal, a commit.
    Renewal,
}

impl Stake {
    /// Nothing hangs on a script that only ends, shows or tells.
    fn of(script: Script) -> Option<Self> {
        match script {
            Script::Acquire | Script::PlainAcquire => Some(Self::Grant),
            Script::Adopt | Script::PlainAdopt => Some(Self::Adoption),
            Script::ChangeMode => Some(Self::Mode),
            Script::Poll => Some(Self::HandOver),
            Script::Commit | Script::PlainRenew | Script::Renew => Some(Self::Renewal),
            Script::Reclaim => Some(Self::Reclaim),
            Script::Cancel
            | Script::Cell
            | Script::Describe
            | Script::Guard
            | Script::Inspect
            | Script::Nodes
            | Script::Numbers
            | Script::PlainDescribe
            | Script::PlainInspect
            | Script::PlainRelease
            | Script::PlainRevoke
            | Script::QueueDrain
            | Script::QueuePush
            | Script::Release
            | Script::Revoke
            | Script::StockSettle
            | Script::StockTake => None,
        }
    }

    /// Whether it gives somebody what that one did not have.
    fn is_new(self) -> bool {
        match self {
            Self::Adoption | Self::Grant | Self::HandOver | Self::Mode => true,
            Self::Reclaim | Self::Renewal => false,
        }
    }

    /// Whether the guard is asked behind it. A holder that finds itself forgotten is often the
    /// first to learn of a flush, and its client must not ask for new locks then.
    fn is_guarded(self) -> bool {
        self != Self::Renewal
    }
}

/// What was asked behind a script, and what came of it.
#[derive(Clone, Debug, Default)]
struct Verdict {
    /// Why the grant may be lost with the primary, if it may be.
    shortfall: Option<String>,
    /// How long the quarantine still lasts, if there is one.
    quarantined: Option<Duration>,
}

/// A reply, and what came of what was asked behind it.
type Outcome = Result<(Value, Result<Verdict, StoreError>), StoreError>;

impl Assurance {
    /// What a URL asks for; `None` if it asks for nothing.
    pub(super) fn new(settings: &Settings) -> Option<Arc<Self>> {
        let quarantine = settings.quarantine.map(|span| Quarantine::new(settings.prefix(), span));
        let replication = Replication::new(settings);
        (quarantine.is_some() || replication.is_some())
            .then(|| Arc::new(Self { quarantine, replication }))
    }

    /// Whether holders take back what the server has forgotten.
    pub(super) fn reclaims(&self) -> bool {
        self.quarantine.is_some()
    }

    /// Refuses what cannot be assured.
    pub(super) fn check(&self, operation: &Operation) -> Result<(), StoreError> {
        self.quarantine.as_ref().map_or(Ok(()), |quarantine| quarantine.check(operation))
    }
}

/// What one connection needs to assure what it carries.
pub(super) struct Assured {
    assurance: Arc<Assurance>,
    /// Opens the lanes.
    dialer: Dialer,
    address: Address,
    /// The run of the server, which ends with this connection at the latest.
    run_id: OnceCell<String>,
    lanes: OnceLock<Lanes>,
    /// The scripts that this connection has given the server, by their bits. Else the first call of
    /// each would wait for replicas only to learn that the server does not know it.
    loaded: AtomicU64,
}

impl fmt::Debug for Assured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Assured").field("assurance", &self.assurance).finish_non_exhaustive()
    }
}

impl Assured {
    pub(super) fn new(assurance: Arc<Assurance>, dialer: Dialer, address: Address) -> Self {
        let (run_id, lanes) = (OnceCell::new(), OnceLock::new());
        Self { assurance, dialer, address, run_id, lanes, loaded: AtomicU64::new(0) }
    }

    pub(super) fn assurance(&self) -> &Arc<Assurance> {
        &self.assurance
    }

    /// Looks at a server that was just connected to: will it do, and what is not as it should be?
    ///
    /// # Errors
    ///
    /// When it lacks a command or a setting, or its user a right.
    pub(super) async fn look(&self, link: &Link) -> Result<Vec<String>, StoreError> {
        let mut words = Vec::new();
        if let Some(replication) = &self.assurance.replication {
            words.extend(replication.look(link).await?);
        }
        if let Some(quarantine) = &self.assurance.quarantine {
            let run_id = self.run_id(quarantine, link).await?;
            words.extend(quarantine.look(link, run_id).await?);
        }
        Ok(words)
    }

    /// The operator says that nothing was forgotten.
    pub(super) async fn end_quarantine(&self, link: &Link) -> Result<(), StoreError> {
        let Some(quarantine) = &self.assurance.quarantine else { return Ok(()) };
        quarantine.end(link, self.run_id(quarantine, link).await?).await
    }

    /// Runs a script and gives its reply, unless what it says does not count. With `asking`, the
    /// node may answer although the slot is not its own yet.
    pub(super) async fn evaluate(
        &self,
        link: &Link,
        call: &Call,
        asking: bool,
    ) -> Result<Value, StoreError> {
        let Some(stake) = Stake::of(call.script) else { return run(link, call).await };
        if let Some(quarantine) = &self.assurance.quarantine {
            let run_id = self.run_id(quarantine, link).await?;
            // A waiter goes on asking, so that it keeps its place.
            if stake != Stake::HandOver && stake.is_new() {
                quarantine.admit(link, run_id).await?;
            }
        }
        let (value, verdict) = self.exchange(link, call, (stake, asking)).await?;
        let value = link.check(value)?;
        if !is_granted(call, &value) {
            return Ok(value);
        }
        let Verdict { shortfall, quarantined } = verdict.map_err(StoreError::maybe_executed)?;
        match (quarantined.filter(|_| stake.is_new()), shortfall) {
            (Some(left), _) => Err(quarantine::refusal(link.server(), left).maybe_executed()),
            (None, Some(why)) => Err(replication::refusal(link.server(), &why).maybe_executed()),
            (None, None) => Ok(value),
        }
    }

    /// The run of the server, asked for once on each connection; then the server is also asked for
    /// the first time whether it has forgotten anything. After a restart and a failover every
    /// client has new connections, so all learn of it before they ask for a lock: an acquire that
    /// came first would mint a token, and a holder could not reclaim behind that.
    async fn run_id(&self, quarantine: &Quarantine, link: &Link) -> Result<&str, StoreError> {
        let first = || async {
            let run_id = link.run_id().await?;
            quarantine.ask(link, run_id).await?;
            Ok(run_id.to_owned())
        };
        self.run_id.get_or_try_init(first).await.map(String::as_str)
    }

    /// Sends a script and what is asked behind it. A server that does not know the script is given
    /// its text.
    async fn exchange(&self, link: &Link, call: &Call, (stake, asking): (Stake, bool)) -> Outcome {
        let command = call.command();
        let script = 1 << call.script as u64;
        if self.assurance.replication.is_some() && self.loaded.load(Ordering::Relaxed) & script == 0
        {
            load(link, call.script).await?;
            self.loaded.fetch_or(script, Ordering::Relaxed);
        }
        let mut tries = 0;
        loop {
            let (value, verdict) = match &self.assurance.replication {
                Some(_) => self.carried(link, command.clone(), asking).await?,
                None => self.guarded(link, command.clone(), stake).await?,
            };
            tries += 1;
            if !is_unknown_script(&value) || tries > LOAD_TRIES {
                return Ok((value, verdict));
            }
            load(link, call.script).await?;
        }
    }

    fn lanes(&self) -> &Lanes {
        self.lanes.get_or_init(|| Lanes::open(&self.assurance, &self.dialer, &self.address))
    }

    /// With replicas to wait for, other connections carry it. What they hear of the server counts
    /// for the one that brought us here: else it would look alive for as long as nothing is asked
    /// on it, and nobody would look for another primary.
    async fn carried(&self, link: &Link, command: Cmd, asking: bool) -> Outcome {
        let sent = Instant::now();
        let outcome = self.lanes().carry(command, asking).await;
        link.heard_beside(sent, outcome.as_ref().err());
        outcome
    }

    /// Without replicas to wait for, the connection that carries everything will do.
    async fn guarded(&self, link: &Link, command: Cmd, stake: Stake) -> Outcome {
        let quarantine = self.assurance.quarantine.as_ref().filter(|_| stake.is_guarded());
        let Some(quarantine) = quarantine else {
            return Ok((link.send(&command).await?, Ok(Verdict::default())));
        };
        let run_id = self.run_id(quarantine, link).await?;
        let mut pair = Pipeline::new();
        pair.add_command(command).add_command(quarantine.guard(run_id, false).command());
        let mut values = link.ask_all(&pair).await?;
        let (Some(guard), Some(value)) = (values.pop(), values.pop()) else {
            return Err(error::nonsense(link.server(), "a script and its guard"));
        };
        let left = quarantine.judge(link, run_id, guard).await;
        let verdict = left.map(|quarantined| Verdict { quarantined, ..Verdict::default() });
        Ok((value, verdict))
    }
}

/// Whether anything hangs on the reply to a call.
pub(super) fn is_at_stake(call: &Call) -> bool {
    Stake::of(call.script).is_some()
}

/// Whether a reply says "yours" to anybody.
fn is_granted(call: &Call, value: &Value) -> bool {
    let Ok(answer) = call.answer(value.clone()) else { return false };
    match answer.reply {
        Reply::Granted(_) => true,
        Reply::Many(replies) => replies.iter().any(|reply| matches!(reply, Reply::Granted(_))),
        _ => false,
    }
}
