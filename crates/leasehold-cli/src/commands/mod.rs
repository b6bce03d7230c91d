//! The commands, each in a file or folder.

pub(crate) mod completions;
mod doctor;
mod elect;
mod handles;
mod hold;
mod ls;
mod man;
mod operator;
mod run;
mod serve;
mod show;
mod status_view;
mod top;
mod totals;

use crate::args::Command;
use crate::report::{Outcome, Verbosity};

#[cfg(fuzzing)]
pub(crate) use self::serve::fuzzing;

/// Does what the command line asks for. Returns the outcome, and how much the command prints.
pub(crate) fn execute(command: &Command) -> (Verbosity, Outcome) {
    match command {
        Command::Completions { shell } => (Verbosity::default(), completions::completions(*shell)),
        Command::Doctor(args) => (args.output.store.verbosity, doctor::doctor(args)),
        Command::Elect(args) => (args.store.verbosity, elect::elect(args)),
        Command::EndQuarantine(args) => (args.verbosity, operator::end_quarantine(args)),
        Command::Give(args) => (args.store.verbosity, handles::give(args)),
        Command::Hold(args) => (args.lock.store.verbosity, hold::hold(args)),
        Command::Ls(args) => (args.output.store.verbosity, ls::ls(args)),
        Command::Man { command } => (Verbosity::default(), man::man(command.as_deref())),
        Command::Renew(args) => (args.store.verbosity, handles::renew(args)),
        Command::Revoke(args) => (args.store.verbosity, operator::revoke(args)),
        Command::Run(args) => (args.lock.store.verbosity, run::run(args)),
        Command::Schema(args) => (args.store.verbosity, operator::schema(args)),
        Command::Serve(args) => (args.store.verbosity, serve::serve(args)),
        Command::Show(args) => (args.output.store.verbosity, show::show(args)),
        Command::Take(args) => (args.lock.store.verbosity, handles::take(args)),
        Command::Top(args) => (args.store.verbosity, top::top(args)),
        Command::Where(args) => (args.store.verbosity, operator::print_choice(args)),
    }
}
