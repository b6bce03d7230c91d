//! The native layout: a name that is taken has a string, its gate, and only a name that is awaited
//! has a queue. The words are those of [`leasehold_core::model::text`].

use std::borrow::Cow;

use leasehold_core::model::text;
use leasehold_core::{
    Action, Answer, Description, End, Keep, LockName, Mode, Request, StoreError, Take,
};
use redis::{Cmd, Value};

use super::script::Script;
use super::slot::slot;
use super::{Layout, Set, effect, is_granted, key, millis, reply};
use crate::store::redis::connection::call::{Call, Effect, ScriptText};

/// The number of counters of a node of a quorum. A node has several, because a client proposes one
/// token to all nodes: with one counter, the nodes would often grant different tokens.
const BUCKETS: u16 = 1_024;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Native {
    prefix: String,
    inboxes: String,
    counters: key::SlotKeys,
    /// Whether the server is a node of a quorum.
    has_buckets: bool,
}

impl Native {
    /// The layout with this beginning of all keys and channels.
    pub fn new(prefix: impl Into<String>, in_cluster: bool) -> Self {
        let prefix = prefix.into();
        let inboxes = key::inbox_prefix(&prefix);
        let counters = key::SlotKeys::new(key::of_store(&prefix, "token"), in_cluster);
        Self { prefix, inboxes, counters, has_buckets: false }
    }

    /// The layout of a node of a quorum.
    pub(crate) fn of_node(prefix: impl Into<String>) -> Self {
        Self { has_buckets: true, ..Self::new(prefix, false) }
    }

    /// The counter of tokens for this gate.
    pub(crate) fn counter(&self, gate: &[u8]) -> Cow<'_, [u8]> {
        let counter = self.counters.key(self.counters.part(Some(gate)));
        match self.has_buckets {
            true => [&counter, format!(":{}", slot(gate) % BUCKETS).as_bytes()].concat().into(),
            false => counter,
        }
    }

    fn take(&self, take: &Take) -> [String; 5] {
        let Take { request, ttl, waits, place, ballot_us, from, claim, once_per, .. } = take;
        let place = if *waits { place.unwrap_or_default().to_string() } else { "-".to_owned() };
        let words = [
            from.map(|from| format!("f {from}")),
            ballot_us.map(|ballot_us| format!("b {ballot_us}")),
            claim.map(|claim| format!("c {}", claim.micros())),
            once_per.map(|span| format!("o {}", span.as_micros().div_ceil(1_000))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        [text::request(request), millis(*ttl), place, self.inboxes.clone(), words.join(" ")]
    }

    /// The call that ends a hold, with these keys.
    fn end<'a, A>(
        &self,
        script: &'static ScriptText,
        keys: impl IntoIterator<Item = &'a [u8]>,
        End { request, known, closes, cooldown, done, .. }: &End,
        decode: fn(Value) -> Result<A, StoreError>,
    ) -> Call<A> {
        let stays = match *closes || !cooldown.is_zero() || !done.is_zero() {
            true => format!("{} {} {}", millis(*cooldown), millis(*done), u8::from(*closes)),
            false => String::new(),
        };
        let (said, request) = (said(request, known.as_deref()), text::request(request));
        Call::new(script, keys, [&said, &request, &self.inboxes, &stays], decode)
    }
}

impl Layout for Native {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let gate = self.key(name);
        let counter = self.counter(&gate);
        let keys = [&gate[..], &counter];
        let call = match action {
            Action::End(end) => self.end(Script::End.text(), keys, end, reply::ended),
            Action::Keep(keep) => self.keep_all(&[(gate, keep)], reply::kept),
            Action::Look { limit } => {
                Call::new(Script::Look.text(), [gate], [limit.to_string()], reply::status)
            }
            Action::Revoke { id, force } => {
                let args = [&*id.to_string(), if *force { "1" } else { "0" }, &self.inboxes];
                Call::new(Script::Revoke.text(), keys, args, reply::ended)
            }
            Action::Take(take) => {
                Call::new(Script::Take.text(), keys, self.take(take), reply::taken)
            }
            _ => return Err(StoreError::unknown_request()),
        };
        Ok(call.with_effect(effect(action), is_granted))
    }

    fn keep(&self, leases: &[(LockName, Keep)]) -> Call<Answer> {
        let leases: Vec<_> = leases.iter().map(|(name, keep)| (self.key(name), keep)).collect();
        self.keep_all(&leases, reply::many_kept)
    }

    fn set(&self, name: &LockName, take: &Take) -> Option<Call<Set>> {
        let Take { request, ttl, place, ballot_us, from, claim, once_per, .. } = take;
        let is_plain = place.is_none() && ballot_us.is_none() && from.is_none() && claim.is_none();
        if !is_plain || once_per.is_some() || request.mode != Mode::Exclusive {
            return None;
        }
        let gate = self.key(name);
        let (counter, value) = (self.counter(&gate), text::held(request.id, None));
        let args = [&value, "NX", "PX", &millis(*ttl)];
        Some(Call::new(Script::Set.text(), [&gate[..], &counter], args, reply::set))
    }

    fn draw(&self, name: &LockName) -> Option<Call<Set>> {
        let gate = self.key(name);
        Some(Call::new(Script::Draw.text(), [self.counter(&gate)], ["1"], reply::set))
    }

    fn end_alone(&self, name: &LockName, end: &End) -> Option<Call<bool>> {
        let leaves_nothing = !end.closes && end.cooldown.is_zero() && end.done.is_zero();
        (leaves_nothing && end.request.mode == Mode::Exclusive).then(|| {
            self.end(Script::EndAlone.text(), [&self.key(name)[..]], end, reply::ended_alone)
        })
    }

    fn key(&self, name: &LockName) -> Vec<u8> {
        key::key(&self.prefix, name)
    }

    fn name(&self, key: &[u8]) -> Option<LockName> {
        key::name(&self.prefix, key)
    }

    fn pattern(&self, begin: &str) -> Vec<u8> {
        key::pattern(&self.prefix, begin)
    }

    fn peek(&self, key: &[u8]) -> Cmd {
        let (is_queue, mut peek) = (key::is_queue(&self.prefix, key), Cmd::new());
        match is_queue {
            true => peek.arg("ZRANGE").arg(key).arg(0).arg(0),
            false => peek.arg("GET").arg(key),
        };
        peek
    }

    /// The value of a gate, or the first request of a queue.
    /// A value that cannot be read keeps its name from all: an operator must find it.
    fn is_lock(&self, value: &[u8], now_us: u64) -> bool {
        let state = std::str::from_utf8(value).ok().and_then(text::read_gate);
        state.is_none_or(|state| state.is_in_use(now_us / 1_000))
    }
}

impl Native {
    fn keep_all(&self, leases: &[(Vec<u8>, &Keep)], decode: reply::Decode) -> Call<Answer> {
        let mut keys: Vec<_> = leases.iter().map(|(gate, _)| gate.clone()).collect();
        if let Some((gate, _)) = leases.iter().find(|(_, keep)| keep.description.is_some()) {
            keys.push(self.counter(gate).into());
        }
        let args = leases.iter().flat_map(|(_, Keep { request, ttl, known, description, .. })| {
            let described = description.as_deref().map(|it| describe(request, it));
            [said(request, known.as_deref()), millis(*ttl), described.unwrap_or_default()]
        });
        let call = Call::new(Script::Keep.text(), keys, args, decode);
        call.with_effect(Some(Effect::Renewal), is_granted)
    }
}

/// What the store says about a hold, as far as its holder knows.
fn said(request: &Request, known: Option<&Description>) -> String {
    match request.mode {
        Mode::Exclusive => text::held(request.id, known),
        _ => format!("s {}", text::request(request)),
    }
}

/// The part of a gate behind the attempt.
fn describe(request: &Request, description: &Description) -> String {
    let held = text::held(request.id, Some(description));
    held.splitn(3, ' ').nth(2).unwrap_or_default().to_owned()
}
