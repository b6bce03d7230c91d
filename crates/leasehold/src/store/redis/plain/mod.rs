//! The layout `plain`: the lock of the Redis documentation, `SET key value NX PX`, compare and
//! delete, compare and expire. It excludes, and is excluded by, every program that does the same.
//!
//! There is nothing on the server but that one string, which ends with its hold: so nobody queues,
//! nothing is shared, and no last token and no ended attempt is remembered. A copy of an acquire
//! that arrives after its attempt has ended is therefore granted, to nobody: the name then stays
//! taken for one ttl. Its `not_after` bounds how late that can happen.

mod delete;
mod value;

use std::time::Duration;

use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::{
    Action, Adopt, Answer, Cancelled, Facts, FencingToken, HolderId, LockName, Mode, RenewLease,
    Reply, StoreError, StoreErrorKind,
};

pub(super) use self::delete::Values;
pub(super) use self::value::{MARK, MAX_VALUE_BYTES, status};
use super::Redis;
use super::key;
use super::packed::{MAX_EXACT, Writer};
use super::script::Script;
use super::wire::Call;

impl Redis {
    /// Does one action to the lock of one name.
    pub(super) async fn act_plainly(
        &self,
        name: &LockName,
        action: &Action,
    ) -> Result<Answer, StoreError> {
        let prefix = &self.layout.prefix;
        if let Some(answer) = self.values.release(&self.route, prefix, name, action).await? {
            return Ok(answer);
        }
        let answer = self.call(on(prefix, name, action)?).await?;
        let reply = reply(action, answer.reply);
        self.values.note(action, &reply);
        Ok(Answer { reply, ..answer })
    }
}

/// The key of a lock: nothing is escaped, because other programs escape nothing.
pub(super) fn key(prefix: &str, name: &LockName) -> Vec<u8> {
    format!("{prefix}{name}").into_bytes()
}

/// The lock whose key this is, or `None` if it can be no lock's.
pub(super) fn name(prefix: &str, key: &[u8]) -> Option<LockName> {
    LockName::new(std::str::from_utf8(key).ok()?.strip_prefix(prefix)?).ok()
}

/// The pattern for `SCAN … MATCH` that fits the keys of all locks whose name begins so.
pub(super) fn pattern(prefix: &str, begin: &str) -> Vec<u8> {
    key::beginning_with(&format!("{prefix}{begin}"))
}

/// The call that does one action to the lock of one name.
///
/// # Errors
///
/// [`Unsupported`](StoreErrorKind::Unsupported) for what is more than one holder.
fn on(prefix: &str, name: &LockName, action: &Action) -> Result<Call, StoreError> {
    let (script, args) = match action {
        Action::Acquire(request) => {
            check(name, request.mode)?;
            // The nodes of a quorum take its ballot, so that they all have the same token.
            let token = match request.ballot_us {
                Some(ballot_us) => (ballot_us, BALLOT_LEAD),
                None => (0, Duration::ZERO),
            };
            let times = (request.ttl, request.not_after_us);
            (Script::PlainAcquire, acquire(request.id, &request.facts, times, token))
        }
        Action::Adopt(request) => {
            check(name, request.mode)?;
            (Script::PlainAdopt, adopt(request))
        }
        Action::Cancel { id, .. } => (Script::PlainRelease, vec![value::begin(*id), number(0)]),
        Action::ChangeMode { .. } => return Err(refused(name, "its mode cannot be changed")),
        Action::Commit { .. } => return Err(refused(name, "its token cannot be changed")),
        Action::Describe { id, facts } => {
            (Script::PlainDescribe, vec![value::begin(*id), value::end(facts)])
        }
        Action::Inspect { .. } => (Script::PlainInspect, Vec::new()),
        Action::Poll { id, ttl } | Action::Renew { id, ttl, .. } => {
            (Script::PlainRenew, vec![value::begin(*id), span(*ttl)])
        }
        Action::Reclaim(claim) => {
            check(name, claim.mode)?;
            let times = (claim.ttl, claim.not_after_us);
            let token = (claim.token.us(), Duration::MAX);
            (Script::PlainAcquire, acquire(claim.id, &claim.facts, times, token))
        }
        Action::Release { id, keep, .. } => {
            (Script::PlainRelease, vec![value::begin(*id), span(*keep)])
        }
        Action::Revoke { id, token, force } => {
            let message = Writer::default()
                .byte(b'R')
                .number(id.attempt)
                .bytes(&[0; 8])
                .bytes(&token.get().to_be_bytes())
                .flag(*force);
            let inbox = key::inbox(prefix, id.client);
            let args = [value::begin(*id), number(token.us()), number(u64::from(*force)), inbox];
            (Script::PlainRevoke, args.into_iter().chain([message.0]).collect())
        }
    };
    Ok(Call::bare(script, vec![key(prefix, name)], args))
}

/// The call that renews many leases.
pub(super) fn renew(prefix: &str, leases: &[RenewLease]) -> Call {
    let keys = leases.iter().map(|lease| key(prefix, &lease.name)).collect();
    let args = leases.iter().flat_map(|lease| [value::begin(lease.id), span(lease.ttl)]).collect();
    Call::batch(Script::PlainRenew, keys, args)
}

/// What a script's reply means for what was asked: some actions share a script.
fn reply(action: &Action, reply: Reply) -> Reply {
    match (action, reply) {
        (Action::Cancel { .. }, Reply::Released) => Reply::Cancelled(Cancelled::Released),
        (Action::Cancel { .. }, Reply::NotHeld { .. }) => Reply::Cancelled(Cancelled::Unknown),
        (Action::Poll { .. }, Reply::NotHeld { .. } | Reply::Revoked(_)) => Reply::Gone,
        (Action::Reclaim(_), Reply::Busy { .. } | Reply::Stale) => Reply::NotHeld { newest: None },
        (_, reply) => reply,
    }
}

/// What to say where nobody has said what the keys begin with: a program that writes other keys
/// excludes nobody, and nothing else would show it.
pub(super) fn keys_note(prefix: &str) -> String {
    format!(
        "with layout=plain the key of a lock is {prefix:?} and its name: give prefix= as the other \
         programs write their keys, with nothing behind it if they use the bare name"
    )
}

fn check(name: &LockName, mode: Mode) -> Result<(), StoreError> {
    match mode {
        Mode::Exclusive => Ok(()),
        Mode::Permits { .. } => Err(refused(name, "it has no permits")),
        Mode::Shared => Err(refused(name, "it is not shared")),
    }
}

fn acquire(
    id: HolderId,
    facts: &Facts,
    (ttl, not_after_us): (Duration, u64),
    (token_us, behind): (u64, Duration),
) -> Vec<Vec<u8>> {
    let numbers = [span(ttl), number(not_after_us), number(token_us), span(behind)];
    [value::begin(id), value::end(facts)].into_iter().chain(numbers).collect()
}

fn adopt(request: &Adopt) -> Vec<Vec<u8>> {
    vec![
        value::begin(request.id),
        value::end(&request.facts),
        value::begin(request.from),
        number(request.token.map_or(0, FencingToken::us)),
        span(request.ttl),
        number(request.not_after_us),
        number(request.ballot_us.unwrap_or(0)),
    ]
}

fn refused(name: &LockName, why: &str) -> StoreError {
    let why = format!(
        "{name}: with layout=plain a lock has one holder, and {why}: leave the layout out, where \
         no program in another language needs the name"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

fn number(number: u64) -> Vec<u8> {
    number.min(MAX_EXACT).to_string().into_bytes()
}

fn span(span: Duration) -> Vec<u8> {
    number(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}
