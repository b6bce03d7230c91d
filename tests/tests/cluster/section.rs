//! What a lock protects: it finds out whether two are in it at once, or come in the wrong order.

use std::pin::Pin;
use std::sync::Mutex;
use std::task::{Context, Waker};

use leasehold::{FencingToken, Guard, Lost};

#[derive(Debug, Default)]
pub(crate) struct Section {
    inside: Mutex<Option<(FencingToken, Lost)>>,
    newest: Mutex<Option<FencingToken>>,
}

impl Section {
    /// Whoever was in it before must have left, or must know that its lease has ended.
    pub(crate) fn enter(&self, guard: &Guard) {
        let token = guard.token();
        let before = self.inside.lock().unwrap().replace((token, guard.lost()));
        if let Some((other, mut lost)) = before {
            let told = Pin::new(&mut lost).poll(&mut Context::from_waker(Waker::noop()));
            assert!(told.is_ready(), "{other} and {token} are held at once");
        }
        let before = self.newest.lock().unwrap().replace(token);
        assert!(before.is_none_or(|before| before < token), "{before:?} was before {token}");
    }

    pub(crate) fn leave(&self, guard: &Guard) {
        let mut inside = self.inside.lock().unwrap();
        if inside.as_ref().is_some_and(|(token, _)| *token == guard.token()) {
            *inside = None;
        }
    }
}
