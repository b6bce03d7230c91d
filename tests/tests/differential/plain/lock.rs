//! A plain lock as a value, and the effects on it: of the lock of the Redis documentation, and of
//! each action of ours.

use std::time::Duration;

use leasehold_core::model::{BALLOT_LEAD, POLL_INTERVAL};
use leasehold_core::{
    Acquire, Action, Adopt, Cancelled, FencingToken, ForeignHolder, Grant, HoldState, Holder,
    HolderId, HolderInfo, Mode, Refusal, Reply, Status,
};

use crate::history::micros;

/// The value of the key, and its end in ms, if it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) value: Value,
    pub(crate) end_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Ours(Hold),
    /// A value of another program, in any form.
    Theirs(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) id: HolderId,
    pub(crate) token_us: u64,
    state: State,
    info: HolderInfo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    Cooldown,
    Revoked,
}

/// A holder was asked to release, or its lease was taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revoked {
    pub(crate) id: HolderId,
    pub(crate) token: FencingToken,
    pub(crate) force: bool,
}

/// A lock in the middle of an action.
pub(crate) struct Step<'a> {
    pub(crate) key: &'a mut Option<Key>,
    pub(crate) now_us: u64,
    pub(crate) message: Option<Revoked>,
}

impl Value {
    /// The value as it is on the server.
    pub(crate) fn text(&self) -> String {
        let Hold { id, token_us, state, info } = match self {
            Self::Ours(hold) => hold,
            Self::Theirs(text) => return text.clone(),
        };
        let state = match state {
            State::Held => "held",
            State::Cooldown => "cooldown",
            State::Revoked => "revoked",
        };
        let label = info.label.as_ref().map(|label| format!("\t{label}")).unwrap_or_default();
        format!("leasehold-1 {id} {token_us} {state} {} {}{label}", info.pid, info.host)
    }
}

impl Key {
    /// A key ends when its last millisecond is over.
    pub(crate) fn has_ended(&self, now_us: u64) -> bool {
        self.end_ms.is_some_and(|end_ms| end_ms < now_us / 1000)
    }

    fn hold_of(&mut self, id: HolderId) -> Option<(&mut Hold, &mut Option<u64>)> {
        match &mut self.value {
            Value::Ours(hold) if hold.id == id => Some((hold, &mut self.end_ms)),
            Value::Ours(_) | Value::Theirs(_) => None,
        }
    }
}

impl Step<'_> {
    pub(crate) fn act(&mut self, action: &Action) -> Reply {
        match action {
            Action::Acquire(request) => {
                let least_us = self.now_us - micros(BALLOT_LEAD);
                self.acquire(request, request.ballot_us.map(|ballot_us| ballot_us.max(least_us)))
            }
            Action::Adopt(request) => self.adopt(request),
            Action::Cancel { id, .. } => match self.release(*id, Duration::ZERO) {
                Reply::Released => Reply::Cancelled(Cancelled::Released),
                _ => Reply::Cancelled(Cancelled::Unknown),
            },
            Action::Describe { id, info } => self.describe(*id, info),
            Action::Inspect { .. } => Reply::Status(Box::new(self.status())),
            Action::Poll { id, ttl } => match self.renew(*id, *ttl) {
                granted @ Reply::Granted(_) => granted,
                _ => Reply::Gone,
            },
            Action::Reclaim(claim) => {
                match self.acquire(&claim.request, Some(claim.token.micros())) {
                    Reply::Busy { .. } | Reply::Stale => Reply::NotHeld { newest: None },
                    reply => reply,
                }
            }
            Action::Release { id, cooldown, .. } => self.release(*id, *cooldown),
            Action::Renew { id, ttl, .. } => self.renew(*id, *ttl),
            Action::Revoke { id, token, force } => self.revoke(*id, *token, *force),
            _ => panic!("{action:?} is refused"),
        }
    }

    /// Servers count in milliseconds, so the end is rounded up.
    fn end_ms(&self, span: Duration) -> u64 {
        (self.now_us + micros(span)).div_ceil(1000)
    }

    fn hold_of(&mut self, id: HolderId) -> Option<(&mut Hold, &mut Option<u64>)> {
        self.key.as_mut()?.hold_of(id)
    }

    /// The state of an attempt's hold.
    fn state_of(&mut self, id: HolderId) -> Option<State> {
        self.hold_of(id).map(|(hold, _)| hold.state)
    }

    fn granted(&mut self, id: HolderId) -> Reply {
        let (hold, end_ms) = self.hold_of(id).unwrap();
        let token = FencingToken::from_micros(hold.token_us);
        Reply::Granted(Grant::new(token, end_ms.unwrap_or(0) * 1000))
    }

    /// If somebody has removed the expiry, this sets it again.
    fn extend(&mut self, id: HolderId, ttl: Duration) -> Reply {
        let later_ms = self.end_ms(ttl);
        let (_, end_ms) = self.hold_of(id).unwrap();
        *end_ms = Some(end_ms.unwrap_or(0).max(later_ms));
        self.granted(id)
    }

    fn not_held(&self) -> Reply {
        let newest = match self.key.as_ref().map(|key| &key.value) {
            Some(Value::Ours(hold)) => Some(FencingToken::from_micros(hold.token_us)),
            Some(Value::Theirs(_)) | None => None,
        };
        Reply::NotHeld { newest }
    }

    fn put(&mut self, id: HolderId, token_us: u64, info: &HolderInfo, end_ms: u64) -> Reply {
        let hold = Hold { id, token_us, state: State::Held, info: info.clone() };
        *self.key = Some(Key { value: Value::Ours(hold), end_ms: Some(end_ms) });
        self.granted(id)
    }

    /// Acquires with the requested token, or with the token of the clock.
    fn acquire(&mut self, request: &Acquire, asked_us: Option<u64>) -> Reply {
        let (id, now_us) = (request.id, self.now_us);
        if now_us > request.not_after_us {
            return Reply::Late;
        }
        if asked_us.is_some_and(|asked_us| asked_us > now_us + micros(BALLOT_LEAD)) {
            return Reply::Refused(Refusal::Ballot);
        }
        match (self.state_of(id), &*self.key) {
            (Some(State::Held), _) => self.extend(id, request.ttl),
            (Some(State::Cooldown | State::Revoked), _) => Reply::Stale,
            (None, Some(key)) => {
                let is_free_us = key.end_ms.map(|end_ms| (end_ms + 1) * 1000);
                let retry_after = is_free_us.map_or(POLL_INTERVAL, |is_free_us| {
                    Duration::from_micros(is_free_us.saturating_sub(now_us))
                });
                Reply::Busy { retry_after }
            }
            (None, None) => {
                let end_ms = self.end_ms(request.ttl);
                self.put(id, asked_us.unwrap_or(now_us), &request.info, end_ms)
            }
        }
    }

    fn adopt(&mut self, Adopt { from, token, request, .. }: &Adopt) -> Reply {
        let (now_us, asked_us) = (self.now_us, request.ballot_us.unwrap_or(0));
        if now_us > request.not_after_us {
            return Reply::Late;
        }
        if asked_us > now_us + micros(BALLOT_LEAD) {
            return Reply::Refused(Refusal::Ballot);
        }
        match self.state_of(request.id) {
            Some(State::Held) => return self.extend(request.id, request.ttl),
            Some(State::Revoked) => return Reply::Revoked(true),
            Some(State::Cooldown) => return self.not_held(),
            None => {}
        }
        let Some((hold, end_ms)) = self.hold_of(*from) else { return self.not_held() };
        let is_it = |token: FencingToken| token.micros() == hold.token_us;
        if !token.is_none_or(is_it) {
            return self.not_held();
        }
        let (state, token_us, before_ms) = (hold.state, hold.token_us, end_ms.unwrap_or(0));
        match state {
            State::Held => {
                let token_us = asked_us.max(now_us).max(token_us + 1);
                let end_ms = self.end_ms(request.ttl).max(before_ms);
                self.put(request.id, token_us, &request.info, end_ms)
            }
            State::Revoked => Reply::Revoked(true),
            State::Cooldown => self.not_held(),
        }
    }

    fn describe(&mut self, id: HolderId, info: &HolderInfo) -> Reply {
        match self.hold_of(id) {
            Some((hold, _)) if hold.state == State::Held => {
                hold.info = info.clone();
                self.granted(id)
            }
            Some((hold, _)) if hold.state == State::Revoked => Reply::Revoked(true),
            Some(_) | None => self.not_held(),
        }
    }

    fn renew(&mut self, id: HolderId, ttl: Duration) -> Reply {
        match self.state_of(id) {
            Some(State::Held) => self.extend(id, ttl),
            Some(State::Revoked) => Reply::Revoked(true),
            Some(State::Cooldown) | None => self.not_held(),
        }
    }

    fn release(&mut self, id: HolderId, cooldown: Duration) -> Reply {
        let later_ms = self.end_ms(cooldown);
        let Some((hold, end_ms)) = self.hold_of(id) else { return self.not_held() };
        if hold.state == State::Cooldown {
            return Reply::Released;
        }
        if cooldown.is_zero() {
            *self.key = None;
        } else {
            (hold.state, *end_ms) = (State::Cooldown, Some(later_ms));
        }
        Reply::Released
    }

    fn revoke(&mut self, id: HolderId, token: FencingToken, force: bool) -> Reply {
        let Some((hold, _)) = self.hold_of(id) else { return Reply::Revoked(false) };
        if hold.token_us != token.micros() {
            return Reply::Revoked(false);
        }
        // A cooldown has no holder that must be asked.
        let is_cooldown = hold.state == State::Cooldown;
        hold.state = State::Revoked;
        if force || is_cooldown {
            *self.key = None;
        }
        self.message = (!is_cooldown).then_some(Revoked { id, token, force });
        Reply::Revoked(true)
    }

    fn status(&self) -> Status {
        let Some(key) = &*self.key else { return Status::default() };
        let left_us = |end_ms: u64| (end_ms * 1000).saturating_sub(self.now_us);
        let ttl_left = key.end_ms.map(|end_ms| Duration::from_micros(left_us(end_ms)));
        match &key.value {
            Value::Theirs(text) => {
                Status::default().with_foreign(Some(ForeignHolder::new(text, ttl_left)))
            }
            Value::Ours(hold) => {
                let state = match hold.state {
                    State::Held => HoldState::Claimed,
                    State::Cooldown => HoldState::Cooldown,
                    State::Revoked => HoldState::Revoked,
                };
                let token = FencingToken::from_micros(hold.token_us);
                let held_for = Duration::from_micros(self.now_us.saturating_sub(hold.token_us));
                let holder = Holder::new(hold.id, Mode::Exclusive, token)
                    .with_state(state)
                    .with_info(hold.info.clone())
                    .with_held_for(held_for)
                    .with_ttl_left(ttl_left.unwrap_or_default());
                Status::default().with_holders(vec![holder]).with_last_token(Some(token))
            }
        }
    }
}
