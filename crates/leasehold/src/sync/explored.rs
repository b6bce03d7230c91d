//! The mutex and the atomics of the standard library, before each use of which another thread may
//! go on, while schedules are explored. Elsewhere they are what they are.
//!
//! All threads of an exploration are coroutines of one, so what lies between two such points is one
//! step. Channels and notifications of tokio are such steps.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{LockResult, MutexGuard, TryLockError};
use std::time::Duration;

use leasehold_core::BoxFuture;
use shuttle::{future, thread};

thread_local! {
    static IS_EXPLORED: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread explores schedules.
#[derive(Debug)]
pub(crate) struct Exploration(());

impl Exploration {
    pub(crate) fn begin() -> Self {
        IS_EXPLORED.set(true);
        Self(())
    }
}

impl Drop for Exploration {
    fn drop(&mut self) {
        IS_EXPLORED.set(false);
    }
}

pub(crate) fn is_on() -> bool {
    IS_EXPLORED.get()
}

/// Another thread may go on here.
fn point() {
    if is_on() && !std::thread::panicking() {
        thread::sleep(Duration::ZERO);
    }
}

/// Has a task driven to its end, without which no schedule ends.
pub(crate) fn spawn(task: BoxFuture<'static, ()>) {
    std::mem::forget(future::spawn(task));
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        while is_on() {
            point();
            match self.0.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(error)) => return Err(error),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
        self.0.lock()
    }

    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }
}

macro_rules! atomics {
    ($($name:ident: $value:ty { $($verb:ident),* })*) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name(std::sync::atomic::$name);

        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            $(pub(crate) fn $verb(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$verb(value, order)
            })*
        }
    )*};
}

atomics! {
    AtomicBool: bool { swap }
    AtomicU64: u64 { fetch_add, fetch_max, fetch_min }
    AtomicUsize: usize { fetch_add, fetch_sub }
}

impl AtomicBool {
    pub(crate) fn store(&self, value: bool, order: Ordering) {
        point();
        self.0.store(value, order);
    }
}

impl AtomicU64 {
    pub(crate) fn load(&self, order: Ordering) -> u64 {
        point();
        self.0.load(order)
    }

    pub(crate) fn store(&self, value: u64, order: Ordering) {
        point();
        self.0.store(value, order);
    }
}

impl AtomicUsize {
    pub(crate) fn load(&self, order: Ordering) -> usize {
        point();
        self.0.load(order)
    }
}
