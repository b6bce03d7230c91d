//! The commands, each in a file or folder.

pub(crate) mod completions;
mod doctor;
mod elect;
mod end_quarantine;
mod give;
mod held_there;
mod hold;
mod ls;
mod man;
mod ready_file;
mod renew;
mod revoke;
mod run;
mod schema;
mod serve;
mod show;
mod status_view;
mod take;
mod top;
mod totals;
mod r#where;

use crate::args::Command;
use crate::report::Outcome;

#[cfg(fuzzing)]
pub(crate) use self::serve::fuzzing;

/// Does what the command line asks for.
pub(crate) fn execute(command: &Command) -> Outcome {
    match command {
        Command::Completions { shell } => completions::completions(*shell),
        Command::Doctor(args) => doctor::doctor(args),
        Command::Elect(args) => elect::elect(args),
        Command::EndQuarantine(args) => end_quarantine::end_quarantine(args),
        Command::Give(args) => give::give(args),
        Command::Hold(args) => hold::hold(args),
        Command::Ls(args) => ls::ls(args),
        Command::Man { command } => man::man(command.as_deref()),
        Command::Renew(args) => renew::renew(args),
        Command::Revoke(args) => revoke::revoke(args),
        Command::Run(args) => run::run(args),
        Command::Schema(args) => schema::schema(args),
        Command::Serve(args) => serve::serve(args),
        Command::Show(args) => show::show(args),
        Command::Take(args) => take::take(args),
        Command::Top(args) => top::top(args),
        Command::Where(args) => r#where::print_choice(args),
    }
}
