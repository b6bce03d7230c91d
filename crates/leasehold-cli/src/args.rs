//! The command line: one definition for parsing, `--help`, completions and the man page.

use std::convert::Infallible;
use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use leasehold::{FencingToken, LockName, Mode};
use rustix::process::Signal;

use crate::limits::{HoldArgs, duration, ttl};
use crate::rearranged::NAME_MARK;
use crate::report::Voice;
use crate::signals::ending_signal;
use crate::store_choice::StoreUrl;

/// Runs programs under a lock that holds across processes and machines.
#[derive(Debug, Parser)]
#[command(
    name = "leasehold",
    version,
    about = "Runs programs under a lock that holds across processes and machines",
    after_help = EXAMPLES,
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  leasehold run nightly-report -n -- ./report.sh      skip it if another machine is on it
  leasehold run deploy --wait 10m -- ./deploy.sh      wait at most ten minutes
  leasehold run gpu --permits 1/4 -- ./train.py       at most four at a time
  leasehold ls                                        what is held, by whom, and who waits

Every machine that shall exclude the others needs the same store:
  export LEASEHOLD_STORE=redis://10.0.0.5/0
Without one, locks are kept in a file and hold for this user on this machine only (see `leasehold
where`). `leasehold man store | man -l -` tells of URLs, their options, passwords in the environment
and the rights of users.";

const RUN_EXAMPLES: &str = "\
A DURATION is a number with its unit, as in 500ms, 30s, 1.5h or 1h30m, or else of seconds.

Examples:
  leasehold run backup -- tar czf /backup/home.tgz /home
  leasehold run nightly-report -n -E 0 --at-least 30s --at-most 1h -- ./report.sh
                                                                once, from ten crontabs
  leasehold run account/7 account/3 -- ./transfer.sh            both or none
  leasehold run catalogue --shared -- ./read-it.sh              readers together, a writer alone
  leasehold run migrate --ttl 10s -v -- sh -c 'echo \"token $LEASEHOLD_TOKEN\"'

Exit code: that of CMD; if signal n ended it, leasehold dies of it, too, which a shell shows as
128 + n; 75 busy or timed out (see -E); 76 the lease was lost; 69 trouble with the store; 126 CMD
cannot be executed; 127 CMD is not found; 2 usage.

CMD sees LEASEHOLD_NAME, LEASEHOLD_TOKEN and LEASEHOLD_HOLDER; several names and their tokens in
the order given, separated by spaces. A `leasehold run` in CMD that asks for what CMD's own lease
holds is told so, with exit code 75. The lease covers CMD and all that it starts: what CMD leaves
behind is waited for, for up to --kill-after (5s), and then ended before the lock is released, so
start what shall stay with `setsid`. What runs as another user cannot be ended: write
`sudo leasehold run …` instead of `… -- sudo CMD`.

After --at-most CMD is sent TERM, and KILL after --kill-after; the lease lasts for as long. The same
becomes of a TERM that leasehold is sent. Other signals are passed on to CMD and nothing more; CMD
has them as the caller had them, but for PIPE, which is set to its default.

A text that is too long for a NAME has one by its hash, the same as that of LockName::hashed:
  \"${text:0:64}~$(printf %s \"$text\" | sha256sum | cut -c1-64)\"";

const HOLD_EXAMPLES: &str = "\
A DURATION is a number with its unit, as in 500ms, 30s, 1.5h or 1h30m, or else of seconds.

Examples:
  coproc leasehold hold deploy              # in bash: lets go when the script ends
  read -r held <&\"${COPROC[0]}\"             # {\"name\":\"deploy\",\"token\":\"…\",…}

Exit code: 0 let go as asked; 75 busy or timed out (see -E); 76 the lease was lost; 69 trouble with
the store; 2 usage.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  leasehold doctor                                  the store that `leasehold where` prints
  leasehold doctor -s redis://db:6379/0 --strict    for a deployment: warnings count, too

Run it where the locks are used, as the user of theirs or one with +info and +config|get on top.
It takes no lock and changes nothing.

Exit code: 0 nothing breaks a promise; 1 something does (with --strict: or may); 69 the store
cannot be reached; 2 usage.";

const ELECT_EXAMPLES: &str = "\
Examples:
  leasehold elect scheduler --value $(hostname):8080 -- ./scheduler
  leasehold elect scheduler --value here        # leads until stdin ends or a signal comes
  leasehold elect scheduler --show              # what the leader says; exit code 1 if nobody leads
  leasehold elect scheduler --listen --json     # one line of JSON per change

The leader's exit code is that of CMD, as in `run`; 76 the leadership was lost, and CMD was ended
before somebody else could lead. Have a supervisor start it again, to stand for election anew.";

/// What the command does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints a script that completes this command in a shell
    #[command(display_order = 9)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Looks at the store and its servers, and says what would break a promise and what mends it
    #[command(display_order = 8, after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Elects one leader among many: runs a command while leading, or tells who leads
    #[command(display_order = 3, after_help = ELECT_EXAMPLES)]
    Elect(Elect),
    /// Says that the store is new or has forgotten nothing, so that its quarantine need not be
    /// waited for: only where no lease of before can be out
    #[command(display_order = 8)]
    EndQuarantine(EndQuarantine),
    /// Holds a lock without a command, for scripts: prints one line of JSON once it is held, and
    /// lets go when stdin ends or a signal comes; with /dev/null as its stdin, as in the
    /// background of a script, when a signal comes
    #[command(display_order = 2, after_help = HOLD_EXAMPLES)]
    Hold(Hold),
    /// Lists the locks that are held or awaited
    #[command(display_order = 4)]
    Ls(List),
    /// Prints a manual page (roff)
    #[command(display_order = 10)]
    Man {
        /// The page of one command, or `store`: URLs, their options, environment, files, rights
        command: Option<String>,
    },
    /// Changes how many permits of a semaphore there are while it is in use; exit code 1 if nobody
    /// holds or waits, for then whoever comes next says how many there are
    #[command(display_order = 6)]
    Permits(Permits),
    /// Takes a lease away from its holder, who stops and lets go; exit code 1 if that token does
    /// not hold the lock
    #[command(display_order = 6)]
    Revoke(Revoke),
    /// Runs a command while holding a lock
    #[command(display_order = 1, after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Shows who holds a lock and who waits for it; exit code 1 if it is free, or not held with the
    /// token that was given
    #[command(display_order = 5)]
    Show(Show),
    /// Waits until nobody holds a lock, without taking it and without a place in line; exit code 75
    /// if somebody still does at the end of --wait
    #[command(display_order = 5)]
    Wait(Wait),
    /// Prints which store is used, and why
    #[command(display_order = 7)]
    Where(Where),
}

impl Command {
    /// How much this command says.
    pub(crate) fn voice(&self) -> Voice {
        match self {
            Self::Completions { .. } | Self::Man { .. } => Voice::usual(),
            Self::Doctor(args) => args.output.voice.into(),
            Self::Elect(args) => args.voice.into(),
            Self::EndQuarantine(args) => args.voice.into(),
            Self::Hold(args) => args.lock.voice.into(),
            Self::Ls(args) => args.output.voice.into(),
            Self::Permits(args) => args.voice.into(),
            Self::Revoke(args) => args.voice.into(),
            Self::Run(args) => args.lock.voice.into(),
            Self::Show(args) => args.output.voice.into(),
            Self::Wait(args) => args.voice.into(),
            Self::Where(args) => args.output.voice.into(),
        }
    }
}

/// Options of everything that talks to a store.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// Where the locks are: redis://HOST[:PORT][/DB], rediss://… (TLS), redis+unix://PATH,
    /// redis+sentinel://HOST,…/SERVICE, redis+cluster://HOST,…, redis+quorum://HOST,… or
    /// file:PATH, with options behind a ? (leasehold man store); else $LEASEHOLD_STORE, else the
    /// configuration. A password may also come from $LEASEHOLD_PASSWORD or the file
    /// $LEASEHOLD_PASSWORD_FILE, where `ps` does not show it
    #[arg(short, long, value_name = "URL", value_parser = store_url, help_heading = "Store")]
    pub(crate) store: Option<StoreUrl>,
}

/// How much is said on stderr.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct VoiceArgs {
    /// Says nothing on stderr but what went wrong
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Says more on stderr: tokens and times of what is done, what is weak about the store
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// What is taken, and for how long it is waited.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How long the lease lives: it is renewed every third of this, and a crashed machine blocks
    /// the others for the rest of it
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = "30s")]
    pub(crate) ttl: Duration,
    /// Waits at most so long, instead of for ever: for whoever holds it, and for a store that is
    /// away or grants nothing for a while, but not for one that is full
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    /// Does not wait: if the lock is busy, ends with exit code 75
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
    /// Shares the lock with other --shared holders; excludes the others
    #[arg(long, conflicts_with = "permits")]
    pub(crate) shared: bool,
    /// Takes K of N permits, as in 1/4. Who says another N than those who hold waits until nobody
    /// does; `leasehold permits` changes N at once
    #[arg(long, value_name = "K/N", value_parser = permits)]
    pub(crate) permits: Option<Mode>,
    /// Shown to whoever looks who holds the lock
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,
    #[command(flatten)]
    pub(crate) hold: HoldArgs,
    /// The exit code for busy or timed out
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = crate::report::BUSY)]
    pub(crate) busy_exit: u8,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct Run {
    /// The name of the lock, 1 to 512 bytes; of several, up to 64, all are held or none. One that
    /// begins with `-` stands between two `--`, as in `run -- -NAME -- CMD`
    #[arg(required = true, value_name = "NAME", value_parser = name)]
    pub(crate) names: Vec<LockName>,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// How a command is ended.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EndArgs {
    /// What happens to CMD when the lease is lost
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = OnLost::Term)]
    pub(crate) on_lost: OnLost,
    /// What is sent first to CMD and all that it has started when they must end: INT, QUIT, …
    #[arg(long, value_name = "NAME", value_parser = ending_signal, default_value = "TERM")]
    pub(crate) signal: Signal,
    /// Time between TERM and KILL, also for a TERM that leasehold itself is sent; and for what CMD
    /// leaves behind, before TERM; by default 5s or a quarter of the ttl, whichever is less
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
}

/// What happens to the command when its lease is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
pub(crate) enum OnLost {
    /// Nothing: it runs on, and others may run beside it
    Ignore,
    /// KILL to it and all that it has started, at once
    Kill,
    /// TERM (or --signal) to it and all that it has started, and KILL after --kill-after
    Term,
}

/// Arguments of `hold`.
#[derive(Args, Debug)]
pub(crate) struct Hold {
    /// The name of the lock: 1 to 512 bytes
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    #[command(flatten)]
    pub(crate) lock: LockArgs,
}

/// Arguments of `elect`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct Elect {
    /// The name of the election
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// Stands for election, and says this while leading; without control characters. Without CMD
    /// it prints one line of JSON once it leads, and leads until stdin ends or a signal comes, as
    /// `hold` does
    #[arg(long, value_name = "TEXT", group = "what")]
    pub(crate) value: Option<String>,
    /// Prints a line for every change, until it is ended
    #[arg(long, group = "what")]
    pub(crate) listen: bool,
    /// Prints what the leader says; exit code 1 if nobody leads
    #[arg(long, group = "what")]
    pub(crate) show: bool,
    /// With --listen or --show, prints JSON; tokens are strings, because they do not fit a double
    #[arg(long, conflicts_with = "value")]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// How long a leader that crashed is waited for
    #[arg(long, value_name = "DURATION", value_parser = ttl, default_value = "30s")]
    pub(crate) ttl: Duration,
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
    /// The command that runs while leading, and its arguments
    #[arg(last = true, conflicts_with_all = ["listen", "show"], value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// How something is printed.
#[derive(Args, Clone, Copy, Debug)]
#[command(mut_arg("verbose", |option| option.help("Says on stderr what is weak about the store")))]
pub(crate) struct OutputArgs {
    /// Prints JSON; tokens are strings, because they do not fit a double
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// How something is printed that has no tokens and of which there is no more to say.
#[derive(Args, Clone, Copy, Debug)]
#[command(mut_arg("verbose", |option| option.help("Has no effect here")))]
pub(crate) struct PlainOutputArgs {
    /// Prints JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `ls`.
#[derive(Args, Debug)]
pub(crate) struct List {
    /// Only names that begin so
    #[arg(default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Also names that nobody holds or awaits, as long as the store remembers them
    #[arg(short, long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `show`.
#[derive(Args, Debug)]
pub(crate) struct Show {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// Asks whether the lease with this token holds it now: exit code 1 if not. Nobody has asked
    /// it to stop, either: it is what a holder's probe wants to know
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(crate) token: Option<FencingToken>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Arguments of `end-quarantine`.
#[derive(Args, Debug)]
pub(crate) struct EndQuarantine {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `permits`.
#[derive(Args, Debug)]
pub(crate) struct Permits {
    /// The name of the semaphore
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// How many permits there are from now on. More are granted at once; fewer take none away, and
    /// none is granted until those that are held fit
    #[arg(value_name = "N", value_parser = capacity)]
    pub(crate) capacity: u32,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `revoke`.
#[derive(Args, Debug)]
pub(crate) struct Revoke {
    /// The name of the lock
    #[arg(value_parser = name)]
    pub(crate) name: LockName,
    /// The token that `show` printed: only that very lease is taken away
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    pub(crate) token: FencingToken,
    /// Ends the lease now, without waiting for its holder: two may be at work for a while
    #[arg(long, action = ArgAction::SetTrue)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `doctor`.
#[derive(Args, Debug)]
pub(crate) struct Doctor {
    /// Ends with exit code 1 for warnings, too
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: PlainOutputArgs,
}

/// Arguments of `wait`.
#[derive(Args, Debug)]
pub(crate) struct Wait {
    /// The name of the lock; of several, until all are free
    #[arg(required = true, value_name = "NAME", value_parser = name)]
    pub(crate) names: Vec<LockName>,
    /// Waits at most so long, instead of for ever
    #[arg(short, long, value_name = "DURATION", value_parser = duration)]
    pub(crate) wait: Option<Duration>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) voice: VoiceArgs,
}

/// Arguments of `where`.
#[derive(Args, Debug)]
pub(crate) struct Where {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    #[command(flatten)]
    pub(crate) output: PlainOutputArgs,
}

/// What a semaphore has at most: one less than the capacity of a lock.
const MOST_PERMITS: u32 = i32::MAX as u32 - 1;

fn name(text: &str) -> Result<LockName, String> {
    LockName::new(text.strip_prefix(NAME_MARK).unwrap_or(text))
        .map_err(|refusal| refusal.to_string())
}

fn store_url(text: &str) -> Result<StoreUrl, Infallible> {
    Ok(text.into())
}

fn token(text: &str) -> Result<FencingToken, String> {
    text.parse().map_err(|refusal: leasehold::Invalid| refusal.to_string())
}

fn permits(text: &str) -> Result<Mode, String> {
    let numbers = text.split_once('/').filter(|(count, of)| is_number(count) && is_number(of));
    let wrong = || format!("{text:?} is not K/N: write 1/4 for one of four");
    let (count, capacity) = numbers.ok_or_else(wrong)?;
    let mode = Mode::Permits { count: number(count)?, capacity: number(capacity)? };
    mode.check().map_err(|refusal| refusal.to_string())?;
    Ok(mode)
}

fn capacity(text: &str) -> Result<u32, String> {
    if !is_number(text) {
        return Err(format!("{text:?} is not a number of permits: write 4 for four"));
    }
    let capacity = number(text)?;
    let mode = Mode::Permits { count: 1, capacity };
    mode.check().map_err(|refusal| refusal.to_string())?;
    Ok(capacity)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn number(digits: &str) -> Result<u32, String> {
    let too_many = |_| format!("{digits} permits are too many: give at most {MOST_PERMITS}");
    digits.parse().map_err(too_many)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn permits_are_two_numbers_of_which_the_first_is_not_larger() {
        assert_eq!(permits("1/4"), Ok(Mode::Permits { count: 1, capacity: 4 }));
        for wrong in ["", "1", "1/", "/4", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b"] {
            assert!(permits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_is_called_that() {
        for large in ["1/4000000000000", "4000000000000/4", "1/2147483647"] {
            let why = permits(large).unwrap_err();
            assert!(why.contains("2147483646") && !why.contains("K/N"), "{why}");
        }
        assert_eq!(capacity("2147483646"), Ok(MOST_PERMITS));
        for wrong in ["", "0", "-1", "+1", "2147483647", "4000000000000", "1/4"] {
            assert!(capacity(wrong).is_err(), "{wrong}");
        }
    }
}
