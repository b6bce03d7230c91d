//! What a script is called with: an action as keys and arguments.
//!
//! Numbers travel as decimal text; an attempt as 24 bytes, the client's 16 and its number as a
//! little-endian double, which holds it exactly below 2⁵³ and which a script unpacks in one step.

use std::time::Duration;

use leasehold_core::{
    Acquire, Action, Answer, ClientId, Facts, HolderId, LockName, Mode, Operation, RenewLease,
    StoreError, StoreErrorKind,
};
use redis::Value;

use super::key;
use super::reply;
use super::script::Script;

/// Where the locks of one store are kept on its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What all keys and channels begin with.
    pub prefix: String,
    /// How long a record outlives its last use.
    pub retention: Duration,
}

/// One call of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which script.
    pub script: Script,
    /// Its keys, each that of a lock.
    pub keys: Vec<Vec<u8>>,
    /// Its other arguments.
    pub args: Vec<Vec<u8>>,
    /// The reply is one of many, even if there is only one.
    is_batch: bool,
}

impl Call {
    /// The call that executes an operation, or `None` for a list, which no script answers.
    pub fn new(layout: &Layout, operation: &Operation) -> Option<Self> {
        match operation {
            Operation::List { .. } => None,
            Operation::On { name, action } => Some(Self::on(layout, name, action)),
            Operation::Renew(leases) => Some(Self::renew(layout, leases)),
        }
    }

    /// The call that does one action to the record of one name.
    pub fn on(layout: &Layout, name: &LockName, action: &Action) -> Self {
        let script = match action {
            Action::Acquire(_) => Script::Acquire,
            Action::Cancel { .. } => Script::Cancel,
            Action::ChangeMode { .. } => Script::ChangeMode,
            Action::Inspect { .. } => Script::Inspect,
            Action::Poll { .. } => Script::Poll,
            Action::Release { .. } => Script::Release,
            Action::Renew { .. } => Script::Renew,
            Action::Revoke { .. } => Script::Revoke,
        };
        let mut call = Self::begin(layout, script);
        call.keys.push(key::key(&layout.prefix, name));
        call.push_action(action);
        call
    }

    /// The call that renews many leases.
    pub fn renew(layout: &Layout, leases: &[RenewLease]) -> Self {
        let mut call = Self::begin(layout, Script::Renew);
        call.is_batch = true;
        for lease in leases {
            call.keys.push(key::key(&layout.prefix, &lease.name));
            call.push_id(lease.id);
            call.push_span(lease.ttl);
        }
        call
    }

    /// The answer that a reply to this call stands for.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Corrupt`] if the record is damaged, which is then left as it is, or if the
    /// reply is none of our scripts'.
    pub fn answer(&self, reply: Value) -> Result<Answer, StoreError> {
        reply::answer(reply, self.is_batch)
    }

    fn begin(layout: &Layout, script: Script) -> Self {
        let mut call = Self { script, keys: Vec::new(), args: Vec::new(), is_batch: false };
        call.args.push(key::inbox_prefix(&layout.prefix).into_bytes());
        call.push_span(layout.retention);
        call
    }

    fn push_action(&mut self, action: &Action) {
        match action {
            Action::Acquire(request) => self.push_acquire(request),
            Action::Cancel { id, unanswered } => {
                self.push_id(*id);
                self.push_flag(*unanswered);
            }
            Action::ChangeMode { id, mode } => {
                self.push_id(*id);
                self.push(match mode {
                    Mode::Exclusive => "exclusive",
                    Mode::Permits { .. } => "permits",
                    Mode::Shared => "shared",
                });
            }
            Action::Inspect { limit } => self.push_number(u64::from(*limit)),
            Action::Poll { id, ttl } | Action::Renew { id, ttl } => {
                self.push_id(*id);
                self.push_span(*ttl);
            }
            Action::Release { id, keep, unanswered } => {
                self.push_id(*id);
                self.push_span(*keep);
                self.push_flag(*unanswered);
            }
            Action::Revoke { id, token, force } => {
                self.push_id(*id);
                self.push_number(token.us());
                self.push(token.get().to_be_bytes());
                self.push_flag(*force);
            }
        }
    }

    fn push_acquire(&mut self, request: &Acquire) {
        self.push_id(request.id);
        self.push_number(u64::from(request.mode.weight()));
        self.push_number(u64::from(request.mode.capacity()));
        self.push_span(request.ttl);
        self.push_flag(request.wait);
        self.push(request.nonce.to_be_bytes());
        self.push_number(request.not_after_us);
        self.push(facts(&request.facts));
    }

    fn push(&mut self, argument: impl AsRef<[u8]>) {
        self.args.push(argument.as_ref().to_vec());
    }

    fn push_id(&mut self, id: HolderId) {
        self.push(holder(id));
    }

    fn push_number(&mut self, number: u64) {
        self.push(number.to_string());
    }

    fn push_span(&mut self, span: Duration) {
        self.push(span.as_micros().to_string());
    }

    fn push_flag(&mut self, flag: bool) {
        self.push(if flag { "1" } else { "0" });
    }
}

/// What a script means by the code of an error reply, or `None` if it is the server's own. The
/// script has written nothing then.
pub fn refusal(code: &str) -> Option<StoreErrorKind> {
    match code {
        // The key of a lock is something else, or damaged.
        "CORRUPT" | "WRONGTYPE" => Some(StoreErrorKind::Corrupt),
        // A number that a script's doubles do not hold exactly.
        "ARGUMENT" => Some(StoreErrorKind::Unsupported),
        _ => None,
    }
}

/// An attempt in 24 bytes.
fn holder(id: HolderId) -> [u8; 24] {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&id.client.0.to_be_bytes());
    bytes[16..].copy_from_slice(&(id.attempt as f64).to_le_bytes());
    bytes
}

/// The attempt that these bytes stand for.
pub fn holder_of(bytes: &[u8]) -> Option<HolderId> {
    let (client, attempt) = bytes.split_at_checked(16)?;
    let client = ClientId(u128::from_be_bytes(client.try_into().ok()?));
    Some(HolderId { client, attempt: whole(f64::from_le_bytes(attempt.try_into().ok()?))? })
}

/// The whole number that a script's double stands for, if it is one that is held exactly.
pub fn whole(number: f64) -> Option<u64> {
    let exact = (0.0..=MAX_EXACT).contains(&number) && number.fract() == 0.0;
    exact.then_some(number as u64)
}

/// The largest number below which a double holds every whole number: 2⁵³.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Host, process and label as bytes; scripts keep them and do not look inside.
fn facts(facts: &Facts) -> Vec<u8> {
    let mut bytes = facts.pid.to_be_bytes().to_vec();
    let host = facts.host.len().min(usize::from(u16::MAX)) as u16;
    bytes.extend(host.to_be_bytes());
    bytes.extend(&facts.host.as_bytes()[..usize::from(host)]);
    if let Some(label) = &facts.label {
        bytes.push(b'=');
        bytes.extend(label.as_bytes());
    }
    bytes
}

/// The facts that these bytes stand for.
pub fn facts_of(bytes: &[u8]) -> Option<Facts> {
    let (pid, rest) = bytes.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (host, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let label = match rest.split_first() {
        None => None,
        Some((b'=', label)) => Some(text(label)?),
        Some(_) => return None,
    };
    Some(Facts { host: text(host)?, pid: u32::from_be_bytes(*pid), label })
}

/// The fields of a lock's hash that tell whether it is idle, for `HMGET`.
pub const LIST_FIELDS: [&str; 2] = ["s", "q"];

/// Bytes of the state of a record that nobody holds: `<BI4dd`.
const IDLE_STATE_BYTES: usize = 21;

/// Whether nobody holds or awaits the name, by the values of [`LIST_FIELDS`]; `None` if the key
/// is no lock's.
pub fn is_idle(state: Option<&[u8]>, queue: Option<&[u8]>) -> Option<bool> {
    Some(state?.len() <= IDLE_STATE_BYTES && queue.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_survives_its_bytes() {
        for attempt in [0, 1, 255, 1 << 52, (1 << 53) - 1] {
            for client in [0, 1, u128::MAX] {
                let id = HolderId { client: ClientId(client), attempt };
                assert_eq!(holder_of(&holder(id)), Some(id));
            }
        }
        assert_eq!(holder_of(&[0; 23]), None);
        assert_eq!(holder_of(&[0xff; 24]), None, "no number");
    }

    #[test]
    fn facts_survive_their_bytes() {
        let hosts = [String::new(), "db-7".to_owned(), "ü".repeat(500)];
        for host in hosts {
            for label in [None, Some(String::new()), Some("nightly = import".to_owned())] {
                let asked = Facts { host: host.clone(), pid: u32::MAX, label };
                assert_eq!(facts_of(&facts(&asked)), Some(asked));
            }
        }
        for damaged in [&b""[..], b"\0\0\0\x01\0", b"\0\0\0\x01\0\x02x", b"\0\0\0\x01\0\0?"] {
            assert_eq!(facts_of(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn only_a_whole_number_that_is_exact_is_taken() {
        assert_eq!(whole(0.0), Some(0));
        assert_eq!(whole(9_007_199_254_740_991.0), Some((1 << 53) - 1));
        for wrong in [-1.0, 0.5, 1e16, f64::NAN, f64::INFINITY] {
            assert_eq!(whole(wrong), None, "{wrong}");
        }
    }
}
