//! The layout `plain`: the lock of the Redis documentation, `SET key value NX PX`, compare and
//! delete, compare and expire. It excludes, and is excluded by, every program that uses the same
//! commands.
//!
//! The server has only that one string, which ends with the hold. So there is no queue and no
//! shared mode, and the server remembers neither the last token nor ended attempts. If a copy of an
//! acquire arrives after its attempt has ended, the server grants it, although it has no caller:
//! the name then stays taken for one ttl. The `not_after` of the request bounds how late that can
//! happen.

pub(crate) mod value;

use std::time::Duration;

use leasehold_core::model::BALLOT_LEAD;
use leasehold_core::{
    Acquire, Action, Adopt, Answer, Effect, FencingToken, LockName, Mode, RenewLease, Reply,
    StoreError, StoreErrorKind,
};
use redis::{Cmd, Value};

use super::script::Script;
use super::shared::{self, cancelled, flag, map, number, polled, revoked, span};
use super::{Layout, is_granted, key, reply};
use crate::store::redis::connection::call::Call;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Plain {
    /// The beginning of all keys.
    pub prefix: String,
}

impl Layout for Plain {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let (script, args) = match action {
            Action::Acquire(request) => {
                check(name, request.mode)?;
                if !request.remember.is_zero() {
                    return Err(refused(name, "who held it last is not remembered"));
                }
                // The nodes of a quorum use the request's ballot, so that they all have the same
                // token.
                let token = match request.ballot_us {
                    Some(ballot_us) => (ballot_us, BALLOT_LEAD),
                    None => (0, Duration::ZERO),
                };
                (Script::PlainAcquire, acquire(request, token))
            }
            Action::Adopt(request) => {
                check(name, request.request.mode)?;
                (Script::PlainAdopt, adopt(request))
            }
            Action::Cancel { id, .. } => (Script::PlainRelease, vec![value::begin(*id), number(0)]),
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
                check(name, claim.request.mode)?;
                let token = (claim.token.micros(), Duration::MAX);
                (Script::PlainAcquire, acquire(&claim.request, token))
            }
            Action::Release { id, cooldown, .. } => {
                (Script::PlainRelease, vec![value::begin(*id), span(*cooldown)])
            }
            Action::Revoke { id, token, force } => {
                let args = vec![
                    value::begin(*id),
                    number(token.micros()),
                    flag(*force),
                    key::inbox(&self.prefix, id.client),
                    revoked(*id, *token, *force),
                    number(token.passes().into()),
                ];
                (Script::PlainRevoke, args)
            }
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
        shared::name(&self.prefix, key)
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::beginning_with(&format!("{}{begin}", self.prefix))
    }

    fn peek(&self, key: &[u8]) -> Cmd {
        let mut peek = redis::cmd("GETRANGE");
        peek.arg(key).arg(0).arg(value::MARK.len() - 1);
        peek
    }

    /// With a prefix, a scan finds only keys of locks; without a prefix, it also finds other data.
    fn is_lock(&self, value: &[u8]) -> bool {
        match self.prefix.is_empty() {
            true => value == value::MARK.as_bytes(),
            false => !value.is_empty(),
        }
    }
}

fn reclaimed(value: Value) -> Result<Answer, StoreError> {
    map(value, |reply| match reply {
        Reply::Busy { .. } | Reply::Stale => Reply::NotHeld { newest: None },
        reply => reply,
    })
}

/// The warning about a missing prefix: programs that write their keys differently do not exclude
/// each other, and nothing else would show that.
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

fn acquire(request: &Acquire, (token_us, behind): (u64, Duration)) -> Vec<Vec<u8>> {
    vec![
        value::begin(request.id),
        value::end(&request.info),
        span(request.ttl),
        number(request.not_after_us),
        number(token_us),
        span(behind),
    ]
}

fn adopt(Adopt { from, token, request, .. }: &Adopt) -> Vec<Vec<u8>> {
    vec![
        value::begin(request.id),
        value::end(&request.info),
        value::begin(*from),
        number(token.map_or(0, FencingToken::micros)),
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
