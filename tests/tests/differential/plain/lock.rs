//! A plain lock as a value, and the effects on it: of the lock of the Redis documentation, and of
//! each action of ours.

use std::time::Duration;

use leasehold_core::model::{ASK_INTERVAL, BALLOT_LEAD};
use leasehold_core::{
    Action, End, FencingToken, ForeignHolder, Grant, HoldState, Holder, HolderId, HolderInfo, Keep,
    Mode, Now, Refusal, Reply, Status, Take,
};

use crate::attempts::millis;

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
            Action::End(end) => self.end(end),
            Action::Keep(keep) => self.keep(keep),
            Action::Look { .. } => Reply::Status(Box::new(self.status())),
            Action::Revoke { id, force } => self.revoke(*id, *force),
            Action::Take(take) => self.take(take),
            _ => panic!("{action:?} is refused"),
        }
    }

    /// Servers count in milliseconds, so the end is rounded up.
    fn end_ms(&self, span: Duration) -> u64 {
        self.now_us.div_ceil(1000) + millis(span)
    }

    fn hold_of(&mut self, id: HolderId) -> Option<(&mut Hold, &mut Option<u64>)> {
        self.key.as_mut()?.hold_of(id)
    }

    fn state_of(&mut self, id: HolderId) -> Option<State> {
        self.hold_of(id).map(|(hold, _)| hold.state)
    }

    fn granted(&mut self, id: HolderId) -> Reply {
        let (hold, _) = self.hold_of(id).unwrap();
        Reply::Granted(Grant::new(FencingToken::from_micros(hold.token_us)))
    }

    /// If somebody has removed the expiry, this sets it again.
    fn extend(&mut self, id: HolderId, ttl: Duration) {
        let later_ms = self.end_ms(ttl);
        let (_, end_ms) = self.hold_of(id).unwrap();
        *end_ms = Some(end_ms.unwrap_or(0).max(later_ms));
    }

    fn put(&mut self, take: &Take, token_us: u64, end_ms: u64) -> Reply {
        let (id, info) = (take.request.id, (*take.request.info).clone());
        let hold = Hold { id, token_us, state: State::Held, info };
        *self.key = Some(Key { value: Value::Ours(hold), end_ms: Some(end_ms) });
        self.granted(id)
    }

    /// Takes the lock with the requested token, or with the token of the clock.
    fn take(&mut self, take: &Take) -> Reply {
        let (id, now_us, lead_us) = (take.request.id, self.now_us, BALLOT_LEAD.as_micros() as u64);
        let asked_us = take.ballot_us.filter(|ballot_us| *ballot_us > 0);
        if asked_us.is_some_and(|asked_us| asked_us > now_us + lead_us) {
            return Reply::Refused(Refusal::Ballot);
        }
        let least_us = asked_us.map_or(now_us, |asked_us| asked_us.max(now_us - lead_us));
        match self.state_of(id) {
            Some(State::Held) => {
                self.extend(id, take.ttl);
                return self.granted(id);
            }
            Some(State::Revoked) => return Reply::Revoked,
            Some(State::Cooldown) => return Reply::Closed,
            None => {}
        }
        if let Some(from) = take.from {
            return self.take_over(take, from, least_us);
        }
        match &*self.key {
            Some(key) => {
                let now_ms = now_us / 1000;
                let left = |end_ms: u64| Duration::from_millis((end_ms + 1).saturating_sub(now_ms));
                Reply::Busy { retry_after: key.end_ms.map_or(ASK_INTERVAL, left) }
            }
            None => self.put(take, least_us, self.end_ms(take.ttl)),
        }
    }

    fn take_over(&mut self, take: &Take, from: HolderId, least_us: u64) -> Reply {
        let Some((hold, end_ms)) = self.hold_of(from) else { return Reply::NotHeld };
        let (state, token_us, before_ms) = (hold.state, hold.token_us, end_ms.unwrap_or(0));
        match state {
            State::Held => {
                let end_ms = self.end_ms(take.ttl).max(before_ms);
                self.put(take, least_us.max(token_us + 1), end_ms)
            }
            State::Revoked => Reply::Revoked,
            State::Cooldown => Reply::NotHeld,
        }
    }

    fn keep(&mut self, keep: &Keep) -> Reply {
        let id = keep.request.id;
        match self.hold_of(id) {
            Some((hold, _)) if hold.state == State::Held => {
                if let Some(description) = &keep.description {
                    hold.info = (*description.info).clone();
                    hold.token_us = hold.token_us.max(description.token.micros());
                }
                self.extend(id, keep.ttl);
                Reply::Kept { contended: false }
            }
            Some((hold, _)) if hold.state == State::Revoked => Reply::Revoked,
            Some(_) | None => Reply::NotHeld,
        }
    }

    fn end(&mut self, end: &End) -> Reply {
        let later_ms = self.end_ms(end.cooldown);
        let Some((hold, end_ms)) = self.hold_of(end.request.id) else { return Reply::Ended(false) };
        match hold.state {
            State::Cooldown => return Reply::Ended(false),
            State::Held if !end.cooldown.is_zero() => {
                (hold.state, *end_ms) = (State::Cooldown, Some(later_ms));
            }
            State::Held | State::Revoked => *self.key = None,
        }
        Reply::Ended(true)
    }

    fn revoke(&mut self, id: HolderId, force: bool) -> Reply {
        let Some((hold, _)) = self.hold_of(id) else { return Reply::Ended(false) };
        // A cooldown has no holder that must be asked.
        let is_cooldown = hold.state == State::Cooldown;
        hold.state = State::Revoked;
        if force || is_cooldown {
            *self.key = None;
        }
        self.message = (!is_cooldown).then_some(Revoked { id, force });
        Reply::Ended(true)
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
                let holder = Holder::new(hold.id, Mode::Exclusive, Some(token))
                    .with_state(state)
                    .with_info(hold.info.clone())
                    .with_ttl_left(ttl_left.unwrap_or_default())
                    .seen_at(Now { lease_us: self.now_us, token_us: self.now_us });
                Status::default().with_holders(vec![holder])
            }
        }
    }
}
