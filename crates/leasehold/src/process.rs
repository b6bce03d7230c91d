//! Whether this process was forked since a value was made.
//!
//! A forked child has copies of its parent's memory and descriptors, but only one of its threads.
//! Sockets and tokio's epoll are shared with the parent, and a lock that another thread had stays
//! locked. So a child uses nothing that its parent has made, and drops none of it. Guards ask this
//! question at each call, so it must be cheap: a handler of pthread_atfork(3) counts forks, and the
//! answer is read from memory. Asking the system for the process's id takes some 100 ns each time.

use once_cell::race::OnceBox;

/// The process in which a value was made. Language bindings use it, too.
#[derive(Clone, Debug)]
pub struct MadeIn(forkguard::Guard);

impl MadeIn {
    /// The current process.
    pub fn this() -> Self {
        Self(forkguard::new())
    }

    /// Whether the value was made in another process, from which this one was forked.
    pub fn is_another(&self) -> bool {
        self.0.clone().detected_fork()
    }
}

/// A value for this process and one for each process from which it was forked. Language bindings
/// use it, too.
#[derive(Debug)]
pub struct PerProcess<T>(OnceBox<Generation<T>>);

/// The value of one process, and those of the children of that process.
#[derive(Debug)]
struct Generation<T> {
    made_in: MadeIn,
    value: T,
    children: PerProcess<T>,
}

impl<T> PerProcess<T> {
    /// Without any value yet.
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    /// The values of the processes from which this one was forked.
    #[cfg(feature = "file")]
    pub(crate) fn of_parents(&self) -> impl Iterator<Item = &T> {
        let all = std::iter::successors(self.0.get(), |it| it.children.0.get());
        all.filter(|it| it.made_in.is_another()).map(|it| &it.value)
    }
}

impl<T: Default> PerProcess<T> {
    /// The value of this process. The first call in each process makes it.
    pub fn this(&self) -> &T {
        let first = self.0.get_or_init(|| {
            let (made_in, value) = (MadeIn::this(), T::default());
            Box::new(Generation { made_in, value, children: Self::new() })
        });
        if first.made_in.is_another() { first.children.this() } else { &first.value }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}
