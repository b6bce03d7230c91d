//! The terminal, as it is lent to the command and taken back.

use rustix::fs::{FileType, fstat};
use rustix::process::Pid;

use crate::terminal::Terminal;

/// The terminal of this process, and whether the command has it.
#[derive(Debug)]
pub(super) struct TerminalLoan {
    terminal: Option<Terminal>,
    is_lent_at_once: bool,
}

impl TerminalLoan {
    /// The controlling terminal of this process, if there is one.
    pub(super) fn of_this_process() -> Self {
        let terminal = Terminal::of_this_process();
        let is_in_foreground = terminal.as_ref().is_some_and(Terminal::is_in_foreground);
        Self { terminal, is_lent_at_once: is_in_foreground && !stdout_is_a_pipe() }
    }

    /// Whether the command has the terminal from the start. In a pipeline it gets it only when it
    /// asks, because a pager in our own group, to the right of us, needs it to read its keys.
    pub(super) fn is_lent_at_once(&self) -> bool {
        self.is_lent_at_once
    }

    /// Notes that the command was started, and has the terminal if it gets it at once.
    pub(super) fn note_start(&mut self) {
        if let Some(terminal) = self.terminal.as_mut().filter(|_| self.is_lent_at_once) {
            terminal.note_lent();
        }
    }

    /// Lends the terminal to the command's group, if that is known and the terminal listens to this
    /// process; whether that is so.
    pub(super) fn lend(&mut self, group: Option<Pid>) -> bool {
        let terminal = self.terminal.as_mut().filter(|terminal| terminal.is_in_foreground());
        let (Some(terminal), Some(group)) = (terminal, group) else { return false };
        terminal.lend(group);
        true
    }

    /// Takes the terminal back; whether it was lent.
    pub(super) fn take_back(&mut self) -> bool {
        let Some(terminal) = &mut self.terminal else { return false };
        let was_lent = terminal.is_lent();
        terminal.take_back();
        was_lent
    }
}

fn stdout_is_a_pipe() -> bool {
    let kind = fstat(std::io::stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}
