//! The mutex and the atomics of the standard library. While schedules are explored, another thread
//! may run before each use of them. Otherwise they behave as usual.
//!
//! All threads of an exploration are coroutines of one thread. So the code between two such points
//! is one step; channels and notifications of tokio are inside steps.

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

/// A point at which another thread may run.
fn point() {
    if is_on() && !std::thread::panicking() {
        thread::sleep(Duration::ZERO);
    }
}

/// Spawns a task that runs to its end, as every schedule needs it to.
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
    AtomicU64: u64 { fetch_add, fetch_max }
    AtomicUsize: usize { fetch_add, fetch_sub }
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
