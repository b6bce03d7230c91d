//! The layout `redisson`: the locks of Redisson, so that programs in Java and in Rust share the
//! same locks. It excludes, and is excluded by, `RLock`, `RFencedLock` and `RReadWriteLock`.
//!
//! Like the layout `plain`, it has no queue, and remembers no last token. But a release is
//! published, on the channels of Redisson and of leasehold; readers share; and an attempt that was
//! given up leaves a trace until no copy of its acquire can arrive any more.

pub(crate) mod limits;
mod names;
pub(crate) mod owners;

use std::time::Duration;

use leasehold_core::token::TOKEN_EPOCH_US;
use leasehold_core::{
    Action, Adopt, Answer, Effect, FencingToken, HolderId, LockName, Mode, RenewLease, Reply,
    StoreError, StoreErrorKind,
};
use redis::{Cmd, Value};

use self::limits::WATCHDOG;
use self::names::LockKeys;
use super::plain::value;
use super::script::Script;
use super::shared::{self, cancelled, flag, number, polled, revoked, span};
use super::{Layout, is_granted, key, reply};
use crate::store::redis::connection::call::Call;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Redisson {
    /// The beginning of the names of locks, like that of a `NameMapper` in Java.
    pub prefix: String,
    /// The beginning of the channels of clients.
    pub inboxes: String,
    /// Whether messages stay in the part of a cluster that serves their channel.
    pub sharded: bool,
    /// Whether tokens are the counter of an `RFencedLock`.
    pub fenced: bool,
}

impl Layout for Redisson {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        check(name, action)?;
        let names = LockKeys::of(&self.prefix, name);
        let Some((script, keys, args)) = self.plan(&names, action) else {
            return Err(refused(
                name,
                "such a lock is renewed and let go, and not changed otherwise",
            ));
        };
        let keys = [vec![names.lock.clone()], keys].concat();
        let keys = keys.into_iter().map(String::into_bytes).collect();
        let call = Call::new(script.text(), keys, args, self.decoder(action));
        Ok(call.with_effect(action.effect(), is_granted))
    }

    fn renew(&self, leases: &[RenewLease]) -> Call<Answer> {
        let keys = leases.iter().flat_map(|lease| {
            let names = LockKeys::of(&self.prefix, &lease.name);
            [names.lock.clone(), names.hold(lease.id)].map(String::into_bytes)
        });
        let args = leases.iter().flat_map(|lease| [text(&names::owner(lease.id)), span(lease.ttl)]);
        let decode = if self.fenced { many_fenced } else { reply::many };
        Call::new(Script::RedissonRenew.text(), keys.collect(), args.collect(), decode)
            .with_effect(Some(Effect::Renewal), is_granted)
    }

    fn key(&self, name: &LockName) -> Vec<u8> {
        LockKeys::of(&self.prefix, name).lock.into_bytes()
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        shared::name(&self.prefix, key)
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::beginning_with(&format!("{}{begin}", self.prefix))
    }

    /// Reads two fields of the hash: at least one of them is not `mode`.
    fn peek(&self, key: &[u8]) -> Cmd {
        let mut peek = redis::cmd("HRANDFIELD");
        peek.arg(key).arg(2);
        peek
    }

    fn is_lock(&self, value: &[u8]) -> bool {
        let fields = String::from_utf8_lossy(value);
        fields.lines().any(names::is_owner)
    }

    fn release_channels(&self, name: &LockName) -> Vec<Vec<u8>> {
        LockKeys::of(&self.prefix, name).channels().map(String::into_bytes).to_vec()
    }
}

/// A script, its keys after that of the lock, and its arguments.
type Planned = (Script, Vec<String>, Vec<Vec<u8>>);

impl Redisson {
    /// The script for an action; `None` if there is none.
    fn plan(&self, names: &LockKeys, action: &Action) -> Option<Planned> {
        let counter = self.fenced.then(|| names.counter());
        Some(match action {
            Action::Acquire(request) => {
                let args = vec![
                    text(&names::owner(request.id)),
                    value::begin(request.id),
                    value::end(&request.info),
                    span(request.ttl),
                    number(request.not_after_us),
                    flag(request.mode == Mode::Shared),
                ];
                let keys = [names.hold(request.id)].into_iter().chain(counter);
                (Script::RedissonAcquire, keys.collect(), args)
            }
            Action::Adopt(adopt) => {
                let keys = [names.hold(adopt.request.id), names.hold(adopt.from)];
                let keys = keys.into_iter().chain(counter);
                (Script::RedissonAdopt, keys.collect(), self.adopt(adopt))
            }
            Action::Cancel { id, unanswered } => {
                let late = if *unanswered { 1 } else { 2 };
                self.release(names, *id, Duration::ZERO, late)
            }
            Action::Describe { id, info } => {
                let args = vec![text(&names::owner(*id)), value::end(info)];
                (Script::RedissonDescribe, vec![names.hold(*id)], args)
            }
            Action::Inspect { limit } => {
                let args = vec![text(&names.base), number((*limit).into())];
                (Script::RedissonInspect, counter.into_iter().collect(), args)
            }
            Action::Poll { id, ttl } | Action::Renew { id, ttl, .. } => {
                let args = vec![text(&names::owner(*id)), span(*ttl)];
                (Script::RedissonRenew, vec![names.hold(*id)], args)
            }
            Action::Release { id, cooldown, unanswered } => {
                self.release(names, *id, *cooldown, u64::from(*unanswered))
            }
            Action::Revoke { id, token, force } => (
                Script::RedissonRevoke,
                vec![names.hold(*id)],
                self.revoke(names, *id, *token, *force),
            ),
            _ => return None,
        })
    }

    fn adopt(&self, Adopt { from, token, request, .. }: &Adopt) -> Vec<Vec<u8>> {
        vec![
            text(&names::owner(request.id)),
            value::begin(request.id),
            value::end(&request.info),
            text(&names::owner(*from)),
            number(token.map_or(0, |token| self.counted(token))),
            span(request.ttl),
            number(request.not_after_us),
            flag(request.mode == Mode::Shared),
        ]
    }

    fn release(&self, names: &LockKeys, id: HolderId, cooldown: Duration, late: u64) -> Planned {
        let args = vec![text(&names::owner(id)), span(cooldown), number(late)];
        let args = [args, self.telling(names)].concat();
        (Script::RedissonRelease, vec![names.hold(id)], args)
    }

    fn revoke(
        &self,
        names: &LockKeys,
        id: HolderId,
        token: FencingToken,
        force: bool,
    ) -> Vec<Vec<u8>> {
        let hold = vec![text(&names::owner(id)), number(self.counted(token)), flag(force)];
        // A token that counts grants has no bits that count how often the lease was passed on.
        let passes = if self.fenced { 0 } else { token.passes() };
        let inbox = key::inbox(&self.inboxes, id.client);
        let message = vec![inbox, revoked(id, token, force), number(passes.into())];
        [hold, self.telling(names), message].concat()
    }

    /// The arguments by which a script notifies waiters.
    fn telling(&self, names: &LockKeys) -> Vec<Vec<u8>> {
        let publish = if self.sharded { "SPUBLISH" } else { "PUBLISH" };
        let [lock, rwlock] = names.channels();
        vec![text(publish), text(&lock), text(&rwlock)]
    }

    /// The number of a token in scripts: microseconds, or the counter of an `RFencedLock`.
    fn counted(&self, token: FencingToken) -> u64 {
        if self.fenced { TOKEN_EPOCH_US + token.get() } else { token.micros() }
    }

    fn decoder(&self, action: &Action) -> fn(Value) -> Result<Answer, StoreError> {
        match (action, self.fenced) {
            (Action::Cancel { .. }, _) => cancelled,
            (Action::Poll { .. }, false) => polled,
            (Action::Poll { .. }, true) => |value| polled(value).map(fence),
            (_, true) => |value| reply::one(value).map(fence),
            (_, false) => reply::one,
        }
    }
}

fn many_fenced(value: Value) -> Result<Answer, StoreError> {
    reply::many(value).map(fence)
}

/// The same answer, with the counter itself as each token instead of a time.
fn fence(mut answer: Answer) -> Answer {
    fence_reply(&mut answer.reply);
    answer
}

fn fence_reply(reply: &mut Reply) {
    let count = |token: &mut FencingToken| {
        let counter = token.micros().saturating_sub(TOKEN_EPOCH_US);
        *token = FencingToken::from_number(counter).unwrap_or(*token);
    };
    match reply {
        Reply::Granted(grant) => count(&mut grant.token),
        Reply::NotHeld { newest } => newest.iter_mut().for_each(count),
        Reply::Many(replies) => replies.iter_mut().for_each(fence_reply),
        Reply::Status(status) => {
            let tokens = status.holders.iter_mut().map(|holder| &mut holder.token);
            tokens.chain(&mut status.last_token).for_each(count);
        }
        _ => {}
    }
}

/// Refuses requests that Redisson's locks do not support.
fn check(name: &LockName, action: &Action) -> Result<(), StoreError> {
    let (mode, ttl) = match action {
        Action::Acquire(request) if !request.remember.is_zero() => {
            return Err(refused(name, "who held it last is not remembered"));
        }
        Action::Acquire(request) => (request.mode, request.ttl),
        Action::Adopt(adopt) => (adopt.request.mode, adopt.request.ttl),
        _ => return Ok(()),
    };
    match mode {
        Mode::Exclusive => Ok(()),
        Mode::Shared if ttl > WATCHDOG => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            format!(
                "{name}: with layout=redisson a reader's ttl is 30s at the most, because the \
                 watchdogs of other readers set the end of the lock to that: give no more than \
                 their lockWatchdogTimeout"
            ),
        )),
        Mode::Shared => Ok(()),
        _ => Err(refused(name, "such a lock has no permits")),
    }
}

fn refused(name: &LockName, why: &str) -> StoreError {
    let why = format!(
        "{name}: with layout=redisson a lock is an RLock, an RFencedLock or an RReadWriteLock, and \
         {why}: leave the layout out, where no program in Java needs the name"
    );
    StoreError::new(StoreErrorKind::Unsupported, why)
}

fn text(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}
