//! The work that a lock protects. It detects two holders at the same time, or in the wrong order.

use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt as _;
use leasehold::{FencingToken, Guard, Lost};

/// Work that one holder of a lock may do at a time.
#[derive(Debug, Default)]
pub struct Section(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    inside: Option<(FencingToken, Lost)>,
    newest: Option<FencingToken>,
}

impl Section {
    /// The holder of a guard begins its work.
    pub fn enter(&self, guard: &Guard) -> Result<(), String> {
        let token = guard.token();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = state.inside.replace((token, guard.lost()));
        let newest = state.newest.replace(token);
        if let Some((other, lost)) = inside
            && lost.now_or_never().is_none()
        {
            return Err(format!("{other} and {token} are held at once"));
        }
        match newest {
            Some(newest) if newest >= token => Err(format!("{newest} was before {token}")),
            _ => Ok(()),
        }
    }

    /// The holder of a guard has done its work.
    pub fn leave(&self, guard: &Guard) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.inside.as_ref().is_some_and(|(token, _)| *token == guard.token()) {
            state.inside = None;
        }
    }
}
