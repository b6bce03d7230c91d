//! The terminal: which process group it listens to, and how it is lent to the command and taken
//! back.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::getpgrp;
use rustix::fs::{FileType, Stat, fstat, stat};
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
        let mask = SigSet::from(Signal::SIGTTOU).thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
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
    Ok(SigSet::from(Signal::SIGTTIN).thread_block()?)
}

/// Whether this is `/dev/null`.
pub(crate) fn is_null(file: impl AsFd) -> bool {
    let device = |found: Stat| (found.st_mode, found.st_rdev);
    let null = stat("/dev/null").map(device);
    fstat(file).is_ok_and(|found| null == Ok(device(found)))
}

/// The terminal of this process, and whether the command has it.
#[derive(Debug)]
pub(crate) struct TtyHandover {
    terminal: Option<Terminal>,
    is_lent_at_once: bool,
    /// The command's group, if the terminal was lent to it.
    lent_to: Option<Pid>,
}

impl TtyHandover {
    /// The controlling terminal of this process, if there is one.
    pub(crate) fn of_this_process() -> Self {
        let terminal = Terminal::of_this_process();
        let is_in_foreground = terminal.as_ref().is_some_and(Terminal::is_in_foreground);
        let is_lent_at_once = is_in_foreground && io::stdin().is_terminal() && !stdout_is_a_pipe();
        Self { terminal, is_lent_at_once, lent_to: None }
    }

    /// Whether the command has the terminal from the start. In a pipeline the command gets the
    /// terminal only on request. A pager to the right of leasehold, in the same group, needs the
    /// terminal to read keys. So does the script that has started leasehold with `&`: it is in the
    /// same group, and such a command has no terminal as its stdin.
    pub(crate) fn is_lent_at_once(&self) -> bool {
        self.is_lent_at_once
    }

    /// Records that the command was started as this group, with the terminal if it is lent from the
    /// start.
    pub(crate) fn note_start(&mut self, group: Option<Pid>) {
        self.lent_to = group.filter(|_| self.is_lent_at_once);
    }

    /// Lends the terminal to the command's group, if the group is known and the terminal listens to
    /// this process. Returns whether the terminal was lent.
    pub(crate) fn lend(&mut self, group: Option<Pid>) -> bool {
        let terminal = self.terminal.as_ref().filter(|terminal| terminal.is_in_foreground());
        let (Some(terminal), Some(group)) = (terminal, group) else { return false };
        self.lent_to = terminal.listen_to(Some(group)).is_ok().then_some(group);
        true
    }

    /// Whether the command has the terminal. It has lost it if a shell took the terminal: a shell
    /// does so when leasehold, its job, is stopped.
    pub(crate) fn is_lent(&self) -> bool {
        let (Some(terminal), Some(group)) = (&self.terminal, self.lent_to) else { return false };
        !terminal.listens_to_other_than(group)
    }

    /// Takes the terminal back, and returns whether the command had it.
    pub(crate) fn take_back(&mut self) -> bool {
        let was_lent = self.is_lent();
        self.lent_to = None;
        if let Some(terminal) = self.terminal.as_ref().filter(|_| was_lent) {
            // If the terminal is gone there is nothing to take back.
            let _gone = terminal.listen_to(None);
        }
        was_lent
    }
}

fn stdout_is_a_pipe() -> bool {
    let kind = fstat(io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}
