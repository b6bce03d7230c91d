//! The lines that the command prints about itself, and its exit codes.

use std::fmt::Display;
use std::io::{ErrorKind, Write as _};

use clap::Args;
use leasehold::Error;
use leasehold::error::StoreErrorKind::{Mismatch, Unsupported};
use rustix::process::Signal;
use serde::Serialize;

use crate::signals::Death;
use crate::stderr;

/// The answer is no: `show` of a free lock, `revoke` of a token that holds nothing.
pub(crate) const NO: u8 = 1;
/// The command line, the environment or a configuration file is wrong, even if only the store can
/// see that.
pub(crate) const USAGE: u8 = 2;
/// Any trouble with the store (`EX_UNAVAILABLE` of sysexits.h).
pub(crate) const STORE: u8 = 69;
/// Busy, or still busy after `--wait` (`EX_TEMPFAIL`: try again later).
pub(crate) const BUSY: u8 = 75;
/// The lease was lost (`EX_PROTOCOL`, which nothing else here uses).
pub(crate) const LOST: u8 = 76;
/// CMD exists and cannot be executed, as in every shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// CMD does not exist, as in every shell.
pub(crate) const NOT_FOUND: u8 = 127;

/// Why the command ends without having done its task.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    pub(crate) message: String,
    kind: Kind,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Something is wrong.
    Trouble,
    /// The lock is busy, which any caller must expect.
    Expected,
    /// The work is left out for a reason that lasts longer than another caller's work.
    Skipped,
    /// A signal ended the command, or the user has stopped waiting or reading.
    Died(Death),
}

impl Failure {
    pub(crate) fn new(exit: u8, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), kind: Kind::Trouble }
    }

    /// A failure with nothing wrong: the lock is busy, which any caller must expect.
    pub(crate) fn expected(exit: u8, message: impl Into<String>) -> Self {
        Self { kind: Kind::Expected, ..Self::new(exit, message) }
    }

    /// The work is left out, and a line says why whatever the exit code is.
    pub(crate) fn skipped(exit: u8, message: impl Into<String>) -> Self {
        Self { kind: Kind::Skipped, ..Self::new(exit, message) }
    }

    /// A signal came while leasehold was only waiting.
    pub(crate) fn interrupted(number: i32, message: String) -> Self {
        Self::by_death(Death { number, is_for_group: false }, message)
    }

    /// A signal ended the command. The message is empty if the user expects that end.
    pub(crate) fn by_death(death: Death, message: String) -> Self {
        // The exit code for death by a signal is the same in every shell.
        let code = u8::try_from(128 + death.number).unwrap_or(u8::MAX);
        Self { kind: Kind::Died(death), ..Self::new(code, message) }
    }

    /// The signal by which leasehold ends itself, after it has printed everything.
    pub(crate) fn death(&self) -> Option<Death> {
        if let Kind::Died(death) = self.kind { Some(death) } else { None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Invalid(_) => USAGE,
            // The request or the place of the store is wrong. Only the store can see that, and
            // asking again does not help.
            Error::Store(error) if matches!(error.kind(), Mismatch | Unsupported) => USAGE,
            Error::Timeout { .. } => BUSY,
            Error::Lost { .. } => LOST,
            // The library's enum is open: a variant that is added later counts as trouble with the
            // store, until this code says otherwise.
            _ => STORE,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<leasehold::error::InvalidInput> for Failure {
    fn from(refusal: leasehold::error::InvalidInput) -> Self {
        Self::usage(refusal.to_string())
    }
}

/// How a command ends: with an exit code, or with a failure.
pub(crate) type Outcome = Result<u8, Failure>;

// The options for how much the command prints on stderr.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Verbosity {
    /// Prints only errors on stderr
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Prints more on stderr: tokens, times, and weaknesses of the store
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

impl Verbosity {
    /// Prints an error, even with `--quiet`: with only the exit code, nobody would notice a failed
    /// nightly job in time.
    pub(crate) fn error(self, message: impl Display) {
        stderr::write(format!("leasehold: {}\n", escaped(&message.to_string())));
    }

    /// Prints something that the user should know and that is no error.
    pub(crate) fn remark(self, message: impl Display) {
        if !self.quiet {
            self.error(message);
        }
    }

    /// Prints why the command ends. For a busy lock with `--busy-exit 0`, it prints a line only
    /// with `-v`.
    pub(crate) fn failure(self, failure: &Failure) {
        match (failure.kind, failure.exit) {
            (Kind::Died(_), _) if failure.message.is_empty() => {}
            (Kind::Trouble, _) => self.error(&failure.message),
            (Kind::Expected, 0) => self.detail(&failure.message),
            (Kind::Expected | Kind::Skipped | Kind::Died(_), _) => self.remark(&failure.message),
        }
    }

    /// Prints something only with `-v`.
    pub(crate) fn detail(self, message: impl Display) {
        if self.verbose {
            self.remark(message);
        }
    }
}

/// Makes foreign text harmless on a terminal, and puts it on one line: control characters, and
/// characters that change the writing direction, are escaped.
pub(crate) fn escaped(text: &str) -> String {
    let harmful = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match harmful(c) {
            true => safe.extend(c.escape_default()),
            false => safe.push(c),
        }
    }
    safe
}

/// Prints the result of a command on stdout.
///
/// # Errors
///
/// If stdout cannot be written to: a result that nobody received is no success.
pub(crate) fn print(text: impl Display) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush()).map_err(|error| match error.kind() {
        // The reader has gone, as with `| head`. Any program then ends without a message.
        ErrorKind::BrokenPipe => Failure::interrupted(Signal::PIPE.as_raw(), String::new()),
        _ => Failure::new(NO, format!("cannot write to stdout: {error}")),
    })
}

/// Prints the result of a command as one line of JSON.
///
/// # Errors
///
/// If stdout cannot be written to.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value)
        .map_err(|error| Failure::new(NO, format!("cannot write JSON: {error}")))?;
    print(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_disturb_a_terminal_is_escaped_and_the_rest_is_not() {
        assert_eq!(escaped("a\nb\u{1b}[31m\u{202e}"), "a\\nb\\u{1b}[31m\\u{202e}");
        assert_eq!(escaped("日本語 ünï \"q\" \\"), "日本語 ünï \"q\" \\");
    }
}
