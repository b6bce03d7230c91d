//! Completions and manual pages, from the definition of the command line.

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;
use crate::report::{Failure, Outcome, print};

/// Prints a completion script.
pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut script);
    print(String::from_utf8_lossy(&script).trim_end()).map(|()| 0)
}

/// Prints a manual page: of the whole, or of one command.
pub(crate) fn man(command: Option<&str>) -> Outcome {
    let mut whole = Cli::command();
    whole.build();
    let page = match command {
        None => whole,
        Some(name) => whole.find_subcommand(name).cloned().ok_or_else(|| {
            Failure::usage(format!("there is no command {name:?}: see `leasehold --help`"))
        })?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page)
        .render(&mut text)
        .map_err(|error| Failure::usage(format!("cannot write the page: {error}")))?;
    print(String::from_utf8_lossy(&text).trim_end()).map(|()| 0)
}
