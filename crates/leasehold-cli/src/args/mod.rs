//! The command line: one definition for parsing, `--help`, completions and the man page.

mod commands;
pub(crate) mod parse;
mod shared;
mod values;

use clap::{Parser, Subcommand};

pub(crate) use self::commands::{
    Doctor, Elect, Give, Hold, Ls, Renew, Revoke, Run, Schema, Serve, Show, Take, Top,
};
pub(crate) use self::parse::options_last;
pub(crate) use self::shared::{EndArgs, Limit, LockArgs, OnLost, PlainOutputArgs, StoreArgs};

/// Runs programs under a lock that holds across processes and machines.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    after_help = include_str!("help/leasehold.txt"),
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands. The arguments of a subcommand are defined only when they are needed, because
/// defining all of them takes as long as starting the program.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub(crate) enum Command {
    /// Prints a script that completes this command in a shell
    #[command(display_order = 9)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Examines the store and its servers: says what would break a promise, and how to repair it
    #[command(display_order = 8, after_help = include_str!("help/doctor.txt"))]
    Doctor(Doctor),
    /// Elects one leader among many: runs a command while leading, or says who leads
    #[command(display_order = 3, after_help = include_str!("help/elect.txt"))]
    Elect(Elect),
    /// Ends the quarantine of a store that is new or has forgotten nothing, instead of waiting. Use
    /// it only if no earlier lease can be valid
    #[command(display_order = 8)]
    EndQuarantine(StoreArgs),
    /// Gives back what `take` has taken, on this machine or another
    #[command(display_order = 2, after_help = include_str!("help/give.txt"))]
    Give(Give),
    /// Holds a lock without a command, for scripts: prints one line of JSON once it is held, and
    /// lets go when stdin ends or a signal comes. If stdin is /dev/null, as in the background of a
    /// script, only a signal ends it
    #[command(display_order = 2, after_help = include_str!("help/hold.txt"))]
    Hold(Hold),
    /// Lists the locks that are held or awaited
    #[command(display_order = 4, after_help = include_str!("help/ls.txt"))]
    Ls(Ls),
    /// Prints a manual page (roff)
    #[command(display_order = 10)]
    Man {
        /// The page of one command, or `store`: URLs, their options, environment, files, rights
        command: Option<String>,
    },
    /// Makes a lock of `take` end later, or sooner
    #[command(display_order = 2, after_help = include_str!("help/renew.txt"))]
    Renew(Renew),
    /// Revokes a lease: its holder stops and lets go; exit code 1 if that token does not hold the
    /// lock
    #[command(display_order = 6)]
    Revoke(Revoke),
    /// Runs a command while holding a lock
    #[command(display_order = 1, after_help = include_str!("help/run.txt"))]
    Run(Run),
    /// Prints the tables and functions that a PostgreSQL database needs, or installs them, with
    /// rights for roles; the first client installs them itself, if its role may
    #[command(display_order = 8, after_help = include_str!("help/schema.txt"))]
    Schema(Schema),
    /// Shows which locks are held and awaited, and by whom: on a page, as JSON and as metrics,
    /// until a signal comes. By default, it is read-only and for this machine only
    #[command(display_order = 5, after_help = include_str!("help/serve.txt"))]
    Serve(Serve),
    /// Shows who holds a lock and who waits for it; exit code 1 if it is free, or not held with the
    /// given token
    #[command(display_order = 5)]
    Show(Show),
    /// Takes a lock for the steps that follow, and prints a handle with which `give` gives it back.
    /// A process in the background renews the lease until then, for a time, or while another
    /// process lives
    #[command(display_order = 2, after_help = include_str!("help/take.txt"))]
    Take(Take),
    /// Shows which locks are held and awaited, and by whom, live: q quits, ? shows the other keys
    #[command(display_order = 4)]
    Top(Top),
    /// Prints which store is used, and why
    #[command(display_order = 7)]
    Where(PlainOutputArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
