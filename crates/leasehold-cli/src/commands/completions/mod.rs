//! `leasehold completions`: prints the completion script of a shell, and answers the script at
//! every TAB.

mod candidates;

use clap::CommandFactory as _;
use clap_complete::Shell;

pub(crate) use self::candidates::{MODE, complete};
use crate::args::Cli;
use crate::report::{Outcome, print};

/// Prints a completion script. The scripts of the most common shells ask this program, so they also
/// complete the names of locks. The other scripts complete only the command line.
pub(crate) fn completions(shell: Shell) -> Outcome {
    let script = match shell {
        Shell::Bash => include_str!("leasehold.bash").to_owned(),
        Shell::Fish => include_str!("leasehold.fish").to_owned(),
        Shell::Zsh => include_str!("leasehold.zsh").to_owned(),
        // The enum of shells is non-exhaustive.
        _ => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "leasehold", &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
    };
    print(script.trim_end()).map(|()| 0)
}
