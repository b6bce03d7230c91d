//! The layout `plain`: the lock of the Redis documentation, `SET key value NX PX`, compare and
//! delete, compare and expire. It excludes, and is excluded by, every program that does the same.
//!
//! There is nothing on the server but that one string, which ends with its hold: so nobody queues,
//! nothing is shared, and no last token and no ended attempt is remembered. A copy of an acquire
//! that arrives after its attempt has ended is therefore granted, to nobody: the name then stays
//! taken for one ttl. Its `not_after` bounds how late that can happen.

pub(crate) mod value;

use std::time::Duration;

use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::time::micros;
use leasehold_core::{
    Action, Adopt, Answer, Cancelled, Effect, FencingToken, HolderId, HolderInfo, LockName, Mode,
    RenewLease, Reply, StoreError, StoreErrorKind,
};
use redis::{Cmd, Value};

use super::codec::{MAX_EXACT, Writer};
use super::script::Script;
use super::{Layout, is_granted, key, reply};
use crate::store::redis::connection::call::Call;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Plain {
    /// What all keys begin with.
    pub prefix: String,
}

impl Layout for Plain {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        self.on(name, action)
    }

    fn renew(&self, leases: &[RenewLease]) -> Call<Answer> {
        let keys = leases.iter().map(|lease| self.key(&lease.name)).collect();
        let args = leases.iter().flat_map(|lease| [value::begin(lease.id), span(lease.ttl)]);
        Call::new(Script::PlainRenew.text(), keys, args.collect(), reply::many)
            .with_effect(Some(Effect::Renewal), is_granted)
    }

    /// Nothing is escaped, because other programs escape nothing.
    fn key(&self, name: &LockName) -> Vec<u8> {
        format!("{}{name}", self.prefix).into_bytes()
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        LockName::new(std::str::from_utf8(key).ok()?.strip_prefix(&self.prefix)?).ok()
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::beginning_with(&format!("{}{begin}", self.prefix))
    }

    fn peek(&self, key: &[u8]) -> Cmd {
        let mut peek = redis::cmd("GETRANGE");
        peek.arg(key).arg(0).arg(value::MARK.len() - 1);
        peek
    }

    /// With a prefix all that is there are locks; without, the user's own data is.
    fn is_lock(&self, value: &[u8], _idle: bool) -> bool {
        match self.prefix.is_empty() {
            true => value == value::MARK.as_bytes(),
            false => !value.is_empty(),
        }
    }
}

impl Plain {
    /// The call that does one action to the lock of one name.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](StoreErrorKind::Unsupported) for what is more than one holder.
    pub fn on(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let (script, args) = match action {
            Action::Acquire(request) => {
                check(name, request.mode)?;
                if !request.remember.is_zero() {
                    return Err(refused(name, "who held it last is not remembered"));
                }
                // The nodes of a quorum take its ballot, so that they all have the same token.
                let token = match request.ballot_us {
                    Some(ballot_us) => (ballot_us, BALLOT_LEAD),
                    None => (0, Duration::ZERO),
                };
                let times = (request.ttl, request.not_after_us);
                (Script::PlainAcquire, acquire(request.id, &request.info, times, token))
            }
            Action::Adopt(request) => {
                check(name, request.mode)?;
                (Script::PlainAdopt, adopt(request))
            }
            Action::Cancel { id, .. } => (Script::PlainRelease, vec![value::begin(*id), number(0)]),
            Action::ChangeMode { .. } => {
                return Err(refused(name, "the mode of such a lock cannot be changed"));
            }
            Action::Commit { .. } => {
                return Err(refused(name, "the token of such a lock cannot be changed"));
            }
            Action::Describe { id, info } => {
                (Script::PlainDescribe, vec![value::begin(*id), value::end(info)])
            }
            Action::Inspect { .. } => (Script::PlainInspect, Vec::new()),
            Action::Poll { id, ttl } | Action::Renew { id, ttl, .. } => {
                (Script::PlainRenew, vec![value::begin(*id), span(*ttl)])
            }
            Action::Reclaim(claim) => {
                check(name, claim.mode)?;
                let times = (claim.ttl, claim.not_after_us);
                let token = (claim.token.micros(), Duration::MAX);
                (Script::PlainAcquire, acquire(claim.id, &claim.info, times, token))
            }
            Action::Release { id, cooldown, .. } => {
                (Script::PlainRelease, vec![value::begin(*id), span(*cooldown)])
            }
            Action::Revoke { id, token, force } => {
                let message = Writer::default()
                    .byte(b'R')
                    .number(id.attempt)
                    .bytes(&[0; 8])
                    .bytes(&token.get().to_be_bytes())
                    .flag(*force);
                let inbox = key::inbox(&self.prefix, id.client);
                let args =
                    [value::begin(*id), number(token.micros()), number(u64::from(*force)), inbox];
                (
                    Script::PlainRevoke,
                    args.into_iter().chain([message.0, number(token.passes().into())]).collect(),
                )
            }
            Action::SetCapacity { .. } => return Err(refused(name, "such a lock has no permits")),
            _ => return Err(StoreError::unknown_request()),
        };
        let decode = match action {
            Action::Cancel { .. } => cancelled,
            Action::Poll { .. } => polled,
            Action::Reclaim(_) => reclaimed,
            _ => reply::one,
        };
        let call = Call::new(script.text(), vec![self.key(name)], args, decode);
        Ok(call.with_effect(action.effect(), is_granted))
    }
}

// What a script's reply means for what was asked, where actions share a script.

fn cancelled(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::Released => Reply::Cancelled(Cancelled::Released),
        Reply::NotHeld { .. } => Reply::Cancelled(Cancelled::Unknown),
        reply => reply,
    })
}

fn polled(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::NotHeld { .. } | Reply::Revoked(_) => Reply::Gone,
        reply => reply,
    })
}

fn reclaimed(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::Busy { .. } | Reply::Stale => Reply::NotHeld { newest: None },
        reply => reply,
    })
}

fn map(value: Value, meaning: fn(Reply) -> Reply) -> Result<Answer, StoreError> {
    let answer = reply::one(value)?;
    let reply = meaning(answer.reply);
    Ok(Answer::new(answer.now, reply).with_more(answer.more))
}

/// The warning where no prefix was given: a program that writes other keys
/// excludes nobody, and nothing else would show it.
pub(crate) fn keys_note(prefix: &str) -> [String; 2] {
    let found = format!("with layout=plain the key of a lock is {prefix:?} and its name");
    let remedy = "give prefix= as the other programs write their keys, with nothing behind it if \
        they use the bare name";
    [found, remedy.to_owned()]
}

fn check(name: &LockName, mode: Mode) -> Result<(), StoreError> {
    match mode {
        Mode::Exclusive => Ok(()),
        Mode::Permits { .. } => Err(refused(name, "such a lock has no permits")),
        _ => Err(refused(name, "such a lock is not shared")),
    }
}

fn acquire(
    id: HolderId,
    info: &HolderInfo,
    (ttl, not_after_us): (Duration, u64),
    (token_us, behind): (u64, Duration),
) -> Vec<Vec<u8>> {
    let numbers = [span(ttl), number(not_after_us), number(token_us), span(behind)];
    [value::begin(id), value::end(info)].into_iter().chain(numbers).collect()
}

fn adopt(request: &Adopt) -> Vec<Vec<u8>> {
    vec![
        value::begin(request.id),
        value::end(&request.info),
        value::begin(request.from),
        number(request.token.map_or(0, FencingToken::micros)),
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
    number(micros(span))
}
