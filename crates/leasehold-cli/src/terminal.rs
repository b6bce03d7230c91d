//! The terminal: which process group it listens to, and how it is lent to the command and taken
//! back.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::getpgrp;
use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetpgrp};

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal {
    tty: File,
    own_group: Pid,
}

impl Terminal {
    /// The controlling terminal, if there is one. Nothing could make it listen to this process
    /// again if the group of this process has no number: the leader is outside of its PID
    /// namespace. That is the same as no terminal.
    pub(crate) fn of_this_process() -> Option<Self> {
        let own_group = Pid::from_raw(getpgrp().as_raw())?;
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        Some(Self { tty, own_group })
    }

    /// Whether keys and Ctrl-C go to this process's group.
    pub(crate) fn is_in_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == self.own_group)
    }

    /// Whether keys and Ctrl-C go to the processes of another group than this one. A group that had
    /// the terminal and has ended is no such group.
    pub(crate) fn listens_to_other_than(&self, group: Pid) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|now| {
            now != group && test_kill_process_group(now) != Err(rustix::io::Errno::SRCH)
        })
    }

    /// Makes the terminal listen to a group of this session, or with `None` to the group of this
    /// process.
    ///
    /// The function blocks SIGTTOU meanwhile. Otherwise the kernel stops a background process that
    /// changes the group of its terminal. To take a lent terminal back, this process makes such a
    /// change.
    pub(crate) fn listen_to(&self, group: Option<Pid>) -> io::Result<()> {
        let mut background_write = SigSet::empty();
        background_write.add(Signal::SIGTTOU);
        let mask = background_write.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let given = tcsetpgrp(&self.tty, group.unwrap_or(self.own_group));
        mask.thread_set_mask()?;
        Ok(given?)
    }
}

/// The width that is assumed if a terminal does not report its width.
const USUAL_COLUMNS: u16 = 80;

/// How many characters fit on a line of this terminal.
pub(crate) fn columns(terminal: impl AsFd) -> usize {
    let columns = tcgetwinsize(terminal).map_or(0, |size| size.ws_col);
    usize::from(if columns == 0 { USUAL_COLUMNS } else { columns })
}

/// Whether this terminal is in line mode and handles Ctrl-C and Ctrl-Z itself.
pub(crate) fn is_cooked(terminal: impl AsFd) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
}

/// Blocks SIGTTIN in this thread. Reading from the terminal in the background is then an error, and
/// does not stop this process, which must go on renewing.
pub(crate) fn refuse_to_stop_for_input() -> io::Result<()> {
    let mut background_read = SigSet::empty();
    background_read.add(Signal::SIGTTIN);
    Ok(background_read.thread_block()?)
}
