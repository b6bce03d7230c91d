//! The questions of a forked child about a lease of its parent take no lock: a thread of the parent
//! may have had the lock at the fork.

use std::sync::Arc;

use leasehold_core::{Error, FakeClock, LossReason, Mode};

use super::{SLICE, Scene, TTL, call, granted, start};
use crate::keeper::lease::LeaseState;
use crate::keeper::state::Held;
use crate::lost::{End, Signal};
use crate::process::MadeIn;

#[test]
fn a_forked_child_learns_the_loss_the_token_and_the_mode_of_a_lease_without_a_lock() {
    let signal = Signal::of_parent(Arc::new(FakeClock::new()), start() + TTL);
    let state = LeaseState::new(call(1), granted(1), signal, start());
    let loss = state.signal.check_here(start()).and_then(End::loss);
    assert_eq!(loss, Some(LossReason::Forked));
    let error = state.lost(LossReason::Forked);
    assert!(matches!(error, Error::Lost { token, .. } if token == granted(1)), "{error:?}");
    assert_eq!((state.token(), state.mode_here()), (granted(1), Mode::Exclusive));
    assert_eq!(state.locks(), 0);
}

#[test]
fn in_a_forked_child_a_lease_leaves_no_line() {
    let mut scene = Scene::new(SLICE);
    let state = scene.held();
    Arc::get_mut(&mut scene.0).unwrap().made_in = MadeIn::another();
    let held = Held { keeper: Arc::clone(&scene.0), state };
    let before = scene.0.table_locks();
    held.keeper.leave_line(&held);
    assert_eq!(scene.0.table_locks(), before);
}
