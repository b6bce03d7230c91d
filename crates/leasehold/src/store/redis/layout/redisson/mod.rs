//! The layout `redisson`: the locks of Redisson, so that programs in Java and in Rust share the
//! same locks. It excludes, and is excluded by, `RLock`, `RFencedLock` and `RReadWriteLock`.
//!
//! Like the layout `plain`, it has no queue. But a release is published, on the channels of
//! Redisson and of leasehold; readers share; and an attempt that was given up leaves a trace until
//! no copy of its acquire can arrive any more.

mod names;
pub(crate) mod owners;

use std::time::Duration;

use leasehold_core::{
    Action, Answer, Description, End, HolderId, Keep, LockName, Mode, StoreError, StoreErrorKind,
    Take,
};
use redis::Cmd;

use self::names::LockKeys;
use super::plain::value;
use super::script::Script;
use super::shared::{self, flag, number, revoked, text, unsupported};
use super::{Layout, effect, is_granted, key, millis, reply};
use crate::store::redis::connection::call::{Call, Effect, Request};

/// The default `lockWatchdogTimeout` of a JVM: 30 s. Its watchdog sets the end of a read lock to
/// this time from now, even if another reader has more time left.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// A hash with more fields than this is not read: it is other data, and no lock.
pub(crate) const PEEK_LIMIT: u32 = 4096;

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
        let names = LockKeys::of(&self.prefix, name);
        let (script, keys, args, decode): Planned = match action {
            Action::End(end) => self.end(&names, end),
            Action::Keep(keep) => {
                check(name, keep.request.mode, keep.ttl)?;
                let keys = vec![names.hold(keep.request.id)];
                (Script::RedissonKeep, keys, kept(keep).to_vec(), reply::kept)
            }
            Action::Look { limit } => {
                let args = vec![text(&names.base), number((*limit).into())];
                (Script::RedissonLook, Vec::new(), args, owners::looked)
            }
            Action::Revoke { id, force } => self.revoke(&names, *id, *force),
            Action::Take(take) => {
                check(name, take.request.mode, take.ttl)?;
                self.take(&names, take)
            }
            _ => return Err(StoreError::unknown_request()),
        };
        let keys = [vec![names.lock], keys].concat();
        let call = Call::new(Request::new(script.text()).with(keys, args), decode);
        Ok(call.with_effect(effect(action), is_granted))
    }

    fn keep(&self, leases: &[(LockName, Keep)]) -> Result<Call<Answer>, StoreError> {
        leases.iter().try_for_each(|(name, keep)| check(name, keep.request.mode, keep.ttl))?;
        let keys = leases.iter().flat_map(|(name, keep)| {
            let names = LockKeys::of(&self.prefix, name);
            let hold = names.hold(keep.request.id);
            [names.lock, hold]
        });
        let args = leases.iter().flat_map(|(_, keep)| kept(keep));
        let request = Request::new(Script::RedissonKeep.text()).with(keys, args);
        let call = Call::new(request, reply::many_kept);
        Ok(call.with_effect(Some(Effect::Renewal), is_granted))
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

    fn is_lock(&self, value: &[u8], _: u64) -> bool {
        let fields = String::from_utf8_lossy(value);
        fields.lines().any(names::is_owner)
    }

    fn release_channels(&self, name: &LockName) -> Vec<Vec<u8>> {
        LockKeys::of(&self.prefix, name).channels().map(String::into_bytes).to_vec()
    }
}

/// A script, its keys after that of the lock, its arguments, and the meaning of its reply.
type Planned = (Script, Vec<String>, Vec<Vec<u8>>, reply::Decode);

impl Redisson {
    fn take(&self, names: &LockKeys, take: &Take) -> Planned {
        let Take { request, ttl, from, .. } = take;
        let args = vec![
            text(&names::owner(request.id)),
            value::begin(request.id),
            value::end(&request.info),
            number(millis(*ttl)),
            flag(request.mode == Mode::Shared),
            from.map(|from| text(&names::owner(from))).unwrap_or_default(),
        ];
        let keys = [names.hold(request.id), names.hold(from.unwrap_or(request.id))];
        let keys = keys.into_iter().chain(self.fenced.then(|| names.counter()));
        (Script::RedissonTake, keys.collect(), args, reply::taken)
    }

    fn end(&self, names: &LockKeys, end: &End) -> Planned {
        let End { request, closes, cooldown, .. } = end;
        let args = vec![text(&names::owner(request.id)), number(millis(*cooldown)), flag(*closes)];
        let args = [args, self.telling(names)].concat();
        (Script::RedissonEnd, vec![names.hold(request.id)], args, reply::ended)
    }

    fn revoke(&self, names: &LockKeys, id: HolderId, force: bool) -> Planned {
        let hold = vec![text(&names::owner(id)), flag(force)];
        let message = vec![key::inbox(&self.inboxes, id.client), revoked(id, force)];
        let args = [hold, self.telling(names), message].concat();
        (Script::RedissonRevoke, vec![names.hold(id)], args, reply::ended)
    }

    /// The arguments by which a script notifies waiters.
    fn telling(&self, names: &LockKeys) -> Vec<Vec<u8>> {
        let publish = if self.sharded { "SPUBLISH" } else { "PUBLISH" };
        let [lock, rwlock] = names.channels();
        vec![text(publish), text(&lock), text(&rwlock)]
    }
}

fn kept(Keep { request, ttl, description, .. }: &Keep) -> [Vec<u8>; 3] {
    let said = description.as_deref().map(|Description { info, .. }| value::end(info));
    [text(&names::owner(request.id)), number(millis(*ttl)), said.unwrap_or_default()]
}

/// Refuses requests that Redisson's locks do not support.
fn check(name: &LockName, mode: Mode, ttl: Duration) -> Result<(), StoreError> {
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
        "with layout=redisson a lock is an RLock, an RFencedLock or an RReadWriteLock, and {why}: \
         leave the layout out, where no program in Java needs the name"
    );
    unsupported(name, &why)
}
