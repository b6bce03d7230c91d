//! Lends the terminal to the command, and takes it back.

use rustix::fs::{FileType, fstat};
use rustix::process::Pid;

use crate::terminal::Terminal;

/// The terminal of this process, and whether the command has it.
#[derive(Debug)]
pub(super) struct TtyHandover {
    terminal: Option<Terminal>,
    is_lent_at_once: bool,
    /// The command's group, if the terminal was lent to it.
    lent_to: Option<Pid>,
}

impl TtyHandover {
    /// The controlling terminal of this process, if there is one.
    pub(super) fn of_this_process() -> Self {
        let terminal = Terminal::of_this_process();
        let is_in_foreground = terminal.as_ref().is_some_and(Terminal::is_in_foreground);
        let is_lent_at_once = is_in_foreground && !stdout_is_a_pipe();
        Self { terminal, is_lent_at_once, lent_to: None }
    }

    /// Whether the command has the terminal from the start. In a pipeline the command gets the
    /// terminal only on request. A pager to the right of leasehold, in the same group, needs the
    /// terminal to read keys.
    pub(super) fn is_lent_at_once(&self) -> bool {
        self.is_lent_at_once
    }

    /// Records that the command was started as this group, with the terminal if it is lent from the
    /// start.
    pub(super) fn note_start(&mut self, group: Option<Pid>) {
        self.lent_to = group.filter(|_| self.is_lent_at_once);
    }

    /// Lends the terminal to the command's group, if the group is known and the terminal listens to
    /// this process. Returns whether the terminal was lent.
    pub(super) fn lend(&mut self, group: Option<Pid>) -> bool {
        let terminal = self.terminal.as_ref().filter(|terminal| terminal.is_in_foreground());
        let (Some(terminal), Some(group)) = (terminal, group) else { return false };
        self.lent_to = terminal.listen_to(Some(group)).is_ok().then_some(group);
        true
    }

    /// Whether the command has the terminal. It has lost it if a shell took the terminal: a shell
    /// does so when leasehold, its job, is stopped.
    pub(super) fn is_lent(&self) -> bool {
        let (Some(terminal), Some(group)) = (&self.terminal, self.lent_to) else { return false };
        !terminal.listens_to_other_than(group)
    }

    /// Takes the terminal back, and returns whether the command had it.
    pub(super) fn take_back(&mut self) -> bool {
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
    let kind = fstat(std::io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}
