//! A descriptor that wakes a caller which waits in its own event loop.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// A descriptor that `ring` makes readable, and that stays readable until it is cleared.
pub(crate) struct Wake {
    read: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    write: OwnedFd,
}

#[cfg(target_os = "linux")]
impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self { read: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    pub(crate) fn ring(&self) {
        // The write cannot fill the counter: it has 64 bits, and each clear resets it.
        let _ = rustix::io::write(&self.read, &1_u64.to_ne_bytes());
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.read, &mut [0; 8]);
    }
}

#[cfg(not(target_os = "linux"))]
impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
            rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(Self { read, write })
    }

    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.write, &[1]);
    }

    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.read, &mut [0; 64]);
    }
}

impl Wake {
    pub(crate) fn descriptor(&self) -> i32 {
        self.read.as_raw_fd()
    }
}
