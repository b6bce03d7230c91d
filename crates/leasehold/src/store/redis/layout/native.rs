//! The native layout: a name that is taken has a string, its gate, and only a name that is awaited
//! has a queue. The words are those of [`leasehold_core::model::text`].

use std::borrow::Cow;
use std::fmt::{self, Write};

use leasehold_core::model::text;
use leasehold_core::{
    Action, Answer, Description, End, Keep, LockName, Mode, Request, StoreError, Take,
};
use redis::Cmd;

use super::script::Script;
use super::slot::slot;
use super::{Layout, Set, effect, is_granted, key, millis, reply};
use crate::store::redis::connection::call::{self, Call, Effect};

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

    /// The request for a call of this script, whose keys are the gate of a name and, if it draws
    /// numbers, the counter. Its arguments follow.
    fn request(&self, script: Script, name: &LockName, draws: bool) -> call::Request {
        let mut request = call::Request::new(script.text());
        let gate = request.write(|key| key::write(key, &self.prefix, name.as_str()));
        let counter = draws.then(|| self.counter(gate));
        request.extend(counter);
        request.end_keys();
        request
    }

    fn take(&self, name: &LockName, take: &Take) -> call::Request {
        let Take { request, ttl, waits, place, ballot_us, from, claim, once_per, .. } = take;
        let place = if *waits { place.unwrap_or_default().to_string() } else { "-".to_owned() };
        let words = [
            from.map(|from| format!("f {from}")),
            ballot_us.map(|ballot_us| format!("b {ballot_us}")),
            claim.map(|claim| format!("c {}", claim.micros())),
            once_per.map(|span| format!("o {}", span.as_micros().div_ceil(1_000))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        let mut taking = self.request(Script::Take, name, true);
        taking.write(|text| text::write_request(text, request));
        taking.number(millis(*ttl));
        taking.extend([&place, &self.inboxes, &words.join(" ")]);
        taking
    }
}

/// The same request to end a hold, with its arguments.
fn ending(mut ending: call::Request, inboxes: &str, end: &End) -> call::Request {
    let End { request, known, closes, cooldown, done, .. } = end;
    ending.write(|text| write_said(text, request, known.as_deref()));
    ending.write(|text| text::write_request(text, request));
    let stays = match *closes || !cooldown.is_zero() || !done.is_zero() {
        true => format!("{} {} {}", millis(*cooldown), millis(*done), u8::from(*closes)),
        false => String::new(),
    };
    ending.extend([inboxes, &stays]);
    ending
}

impl Layout for Native {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let call = match action {
            Action::End(end) => {
                let request = ending(self.request(Script::End, name, true), &self.inboxes, end);
                Call::new(request, reply::ended)
            }
            Action::Keep(keep) => self.keep_all([(name, keep)].into_iter(), reply::kept),
            Action::Look { limit } => {
                let mut request = self.request(Script::Look, name, false);
                request.number((*limit).into());
                Call::new(request, reply::status)
            }
            Action::Revoke { id, force } => {
                let mut request = self.request(Script::Revoke, name, true);
                let force = if *force { "1" } else { "0" };
                request.extend([&*id.to_string(), force, &self.inboxes]);
                Call::new(request, reply::ended)
            }
            Action::Take(take) => Call::new(self.take(name, take), reply::taken),
            _ => return Err(StoreError::unknown_request()),
        };
        Ok(call.with_effect(effect(action), is_granted))
    }

    fn keep(&self, leases: &[(LockName, Keep)]) -> Result<Call<Answer>, StoreError> {
        Ok(self.keep_all(leases.iter().map(|(name, keep)| (name, keep)), reply::many_kept))
    }

    fn set(&self, name: &LockName, take: &Take) -> Option<Call<Set>> {
        let Take { request, ttl, place, ballot_us, from, claim, once_per, .. } = take;
        let is_plain = place.is_none() && ballot_us.is_none() && from.is_none() && claim.is_none();
        if !is_plain || once_per.is_some() || request.mode != Mode::Exclusive {
            return None;
        }
        let mut set = self.request(Script::Set, name, true);
        set.write(|text| text::write_held(text, request.id, None));
        set.extend(["NX", "PX"]);
        set.number(millis(*ttl));
        Some(Call::new(set, reply::set))
    }

    fn draw(&self, name: &LockName) -> Option<Call<Set>> {
        let gate = self.key(name);
        let draw = call::Request::new(Script::Draw.text());
        Some(Call::new(draw.with([self.counter(&gate)], ["1"]), reply::set))
    }

    fn end_alone(&self, name: &LockName, end: &End) -> Option<Call<bool>> {
        let leaves_nothing = !end.closes && end.cooldown.is_zero() && end.done.is_zero();
        (leaves_nothing && end.request.mode == Mode::Exclusive).then(|| {
            let request = self.request(Script::EndAlone, name, false);
            Call::new(ending(request, &self.inboxes, end), reply::ended_alone)
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
    fn keep_all<'a>(
        &self,
        leases: impl Iterator<Item = (&'a LockName, &'a Keep)> + Clone,
        decode: reply::Decode,
    ) -> Call<Answer> {
        let (mut keeping, mut counter) = (call::Request::new(Script::Keep.text()), None);
        for (name, keep) in leases.clone() {
            let gate = keeping.write(|key| key::write(key, &self.prefix, name.as_str()));
            let draws = counter.is_none() && keep.description.is_some();
            counter = if draws { Some(self.counter(gate)) } else { counter };
        }
        keeping.extend(counter);
        keeping.end_keys();
        for (_, Keep { request, ttl, known, description, .. }) in leases {
            keeping.write(|text| write_said(text, request, known.as_deref()));
            keeping.number(millis(*ttl));
            keeping.write(|to| match description.as_deref() {
                Some(told) => text::write_known(to, told.token.micros(), &told.info),
                None => Ok(()),
            });
        }
        let call = Call::new(keeping, decode);
        call.with_effect(Some(Effect::Renewal), is_granted)
    }
}

/// Writes what the store says about a hold, as far as its holder knows.
fn write_said(to: &mut impl Write, request: &Request, known: Option<&Description>) -> fmt::Result {
    match request.mode {
        Mode::Exclusive => text::write_held(to, request.id, known),
        _ => {
            to.write_str("s ")?;
            text::write_request(to, request)
        }
    }
}
