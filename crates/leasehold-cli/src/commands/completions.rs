//! `leasehold completions`: a script that completes the command in a shell.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::report::{Outcome, print};

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut script);
    print(String::from_utf8_lossy(&script).trim_end()).map(|()| 0)
}
