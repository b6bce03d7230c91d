//! The native layout: a name that is taken has a string, its gate, and only a name that is awaited
//! has a queue. The words are those of [`leasehold_core::model::text`].

use leasehold_core::model::text;
use leasehold_core::{
    Action, Answer, Description, End, Keep, LockName, Mode, Request, StoreError, Take,
};
use redis::Cmd;

use super::script::Script;
use super::slot::slot;
use super::slot_key::SlotKeys;
use super::{Layout, Set, effect, is_granted, key, millis, reply};
use crate::store::redis::connection::call::{Call, Effect};

/// The number of counters of a node of a quorum. A node has several, because a client proposes one
/// token to all nodes: with one counter, the nodes would often grant different tokens.
const BUCKETS: u16 = 1_024;

/// The layout of one store.
#[derive(Clone, Debug)]
pub struct Native {
    prefix: String,
    inboxes: Vec<u8>,
    counters: SlotKeys,
    /// Whether the server is a node of a quorum.
    has_buckets: bool,
}

impl Native {
    /// The layout with this beginning of all keys and channels.
    pub fn new(prefix: impl Into<String>, in_cluster: bool) -> Self {
        let prefix = prefix.into();
        let inboxes = key::inbox_prefix(&prefix).into_bytes();
        let counters = SlotKeys::new(key::token(&prefix), in_cluster);
        Self { prefix, inboxes, counters, has_buckets: false }
    }

    /// The layout of a node of a quorum.
    pub(crate) fn of_node(prefix: impl Into<String>) -> Self {
        Self { has_buckets: true, ..Self::new(prefix, false) }
    }

    /// The counter of tokens for this gate.
    pub(crate) fn counter(&self, gate: &Vec<u8>) -> Vec<u8> {
        let counter = self.counters.key(self.counters.part(Some(gate)));
        match self.has_buckets {
            true => [counter, format!(":{}", slot(gate) % BUCKETS).into_bytes()].concat(),
            false => counter,
        }
    }

    fn take(&self, take: &Take) -> Vec<Vec<u8>> {
        let Take { request, ttl, waits, place, ballot_us, from, claim, once_per, .. } = take;
        let place = match (waits, place) {
            (true, place) => place.unwrap_or_default().to_string(),
            (false, _) => "-".to_owned(),
        };
        let words = [
            from.map(|from| format!("f {from}")),
            ballot_us.map(|ballot_us| format!("b {ballot_us}")),
            claim.map(|claim| format!("c {}", claim.micros())),
            once_per.map(|span| format!("o {}", span.as_micros().div_ceil(1_000))),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        vec![
            text::request(request).into_bytes(),
            millis(*ttl),
            place.into_bytes(),
            self.inboxes.clone(),
            words.join(" ").into_bytes(),
        ]
    }

    fn end(&self, End { request, known, closes, cooldown, done, .. }: &End) -> Vec<Vec<u8>> {
        let stays = match *closes || !cooldown.is_zero() || !done.is_zero() {
            true => [millis(*cooldown), millis(*done), vec![b'0' + u8::from(*closes)]].join(&b' '),
            false => Vec::new(),
        };
        let said = said(request, known.as_deref());
        vec![said, text::request(request).into_bytes(), self.inboxes.clone(), stays]
    }
}

impl Layout for Native {
    fn act(&self, name: &LockName, action: &Action) -> Result<Call<Answer>, StoreError> {
        let gate = self.key(name);
        if let Action::Keep(keep) = action {
            return Ok(self.keep_all(&[(gate, keep)], reply::kept));
        }
        let (script, args, decode): (_, _, reply::Decode) = match action {
            Action::End(end) => (Script::End, self.end(end), reply::ended),
            Action::Look { limit } => {
                let args = vec![limit.to_string().into_bytes()];
                return Ok(Call::new(Script::Look.text(), vec![gate], args, reply::status));
            }
            Action::Revoke { id, force } => {
                let force = u8::from(*force).to_string();
                let args =
                    vec![id.to_string().into_bytes(), force.into_bytes(), self.inboxes.clone()];
                (Script::Revoke, args, reply::ended)
            }
            Action::Take(take) => (Script::Take, self.take(take), reply::taken),
            _ => return Err(StoreError::unknown_request()),
        };
        let counter = self.counter(&gate);
        let call = Call::new(script.text(), vec![gate, counter], args, decode);
        Ok(call.with_effect(effect(action), is_granted))
    }

    fn keep(&self, leases: &[(LockName, Keep)]) -> Call<Answer> {
        let leases: Vec<_> = leases.iter().map(|(name, keep)| (self.key(name), keep)).collect();
        self.keep_all(&leases, reply::many_kept)
    }

    fn set(&self, name: &LockName, take: &Take) -> Option<Call<Set>> {
        let Take { request, ttl, place, ballot_us, from, claim, once_per, .. } = take;
        let is_plain = place.is_none() && ballot_us.is_none() && from.is_none() && claim.is_none();
        // A label is shown at once: it may be what a leader says.
        let is_shown = request.info.label.is_some();
        if !is_plain || is_shown || once_per.is_some() || request.mode != Mode::Exclusive {
            return None;
        }
        let gate = self.key(name);
        let (counter, value) = (self.counter(&gate), text::held(request.id, None).into_bytes());
        let args = vec![value, millis(*ttl)];
        Some(Call::new(Script::setting(), vec![gate, counter], args, reply::set))
    }

    fn draw(&self, name: &LockName) -> Option<Call<Set>> {
        let (counter, one) = (self.counter(&self.key(name)), b"1".to_vec());
        Some(Call::new(Script::Draw.text(), vec![counter], vec![one], reply::set))
    }

    fn end_alone(&self, name: &LockName, end: &End) -> Option<Call<bool>> {
        let (keys, args) = (vec![self.key(name)], self.end(end));
        let leaves_nothing = args.last().is_some_and(Vec::is_empty);
        (leaves_nothing && end.request.mode == Mode::Exclusive)
            .then(|| Call::new(Script::ending(), keys, args, reply::ended_alone))
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
        if key::is_queue(&self.prefix, key) {
            let mut peek = redis::cmd("ZRANGE");
            peek.arg(key).arg(0).arg(0);
            return peek;
        }
        let mut peek = redis::cmd("GET");
        peek.arg(key);
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
            keys.push(self.counter(gate));
        }
        let args = leases.iter().flat_map(|(_, Keep { request, ttl, known, description, .. })| {
            let described =
                description.as_deref().map(|description| describe(request, description));
            [said(request, known.as_deref()), millis(*ttl), described.unwrap_or_default()]
        });
        let call = Call::new(Script::Keep.text(), keys, args.collect(), decode);
        call.with_effect(Some(Effect::Renewal), is_granted)
    }
}

/// What the store says about a hold, as far as its holder knows.
fn said(request: &Request, known: Option<&Description>) -> Vec<u8> {
    match request.mode {
        Mode::Exclusive => text::held(request.id, known),
        _ => format!("s {}", text::request(request)),
    }
    .into_bytes()
}

/// The part of a gate behind the attempt.
fn describe(request: &Request, description: &Description) -> Vec<u8> {
    let held = text::held(request.id, Some(description));
    held.splitn(3, ' ').nth(2).unwrap_or_default().as_bytes().to_vec()
}
