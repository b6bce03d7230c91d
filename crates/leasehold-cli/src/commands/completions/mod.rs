//! `leasehold completions`: prints the completion script of a shell, and answers the script at
//! every TAB: options and commands of the command line, and names of locks in the store.

use std::ffi::{OsStr, OsString};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::{Arg, Command, CommandFactory as _};
use clap_complete::Shell;
use clap_complete::engine::{self, ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use leasehold::LockName;

use crate::args::{Cli, options_last};
use crate::commands::man;
use crate::connection;
use crate::report::{Failure, Outcome, Verbosity, print};
use crate::store_choice;
use crate::store_url::StoreUrl;

/// The first argument when a completion script asks for candidates. The words behind the command's
/// own name follow, up to the word that is being typed.
pub(crate) const MODE: &str = "@complete";

/// How long a store may take to list its names: 1 s. The user who pressed TAB waits for that long.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most names that are offered: 1 000, more than anybody reads.
const LIMIT: u32 = 1_000;

/// Arguments that are names of locks, or prefixes of names.
const NAMES: [&str; 3] = ["name", "names", "prefix"];

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

/// Prints the candidates, one per line, each with its meaning behind a tab. Errors are not printed,
/// because the user is in the middle of typing a line.
pub(crate) fn complete(words: &[OsString]) -> Outcome {
    let words = options_last(words);
    let store = given_store(&words);
    let mut all = Cli::command();
    all.build(); // also defines the arguments of subcommands
    let all = all.mut_subcommands(|command| with_candidates(command, store.as_ref()));
    let typed = words.last().cloned().unwrap_or_default();
    let line: Vec<OsString> = [OsString::from("leasehold")].into_iter().chain(words).collect();
    let last = line.len() - 1;
    let mut found = engine::complete(&mut { all }, line, last, None).unwrap_or_default();
    // Options are candidates only for a word that begins with `-`.
    let begins_so = |text: &OsStr| text.as_encoded_bytes().starts_with(b"-");
    found.retain(|candidate| begins_so(&typed) || !begins_so(candidate.get_value()));
    let lines = found.iter().map(|candidate| {
        let value = candidate.get_value().to_string_lossy();
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        format!("{value}\t{}", help.lines().next().unwrap_or_default())
    });
    let lines: Vec<String> = lines.collect();
    if !lines.is_empty() {
        print(lines.join("\n"))?;
    }
    Ok(0)
}

/// Gives the arguments of a command their candidates.
fn with_candidates(command: Command, store: Option<&StoreUrl>) -> Command {
    let is_man = command.get_name() == "man";
    command.mut_args(|argument: Arg| match argument.get_id().as_str() {
        "command" if is_man => argument.add(ArgValueCandidates::new(man::pages)),
        id if NAMES.contains(&id) => {
            let store = store.cloned();
            let names = move |typed: &OsStr| names(store.clone(), typed);
            argument.add(ArgValueCompleter::new(names))
        }
        _ => argument,
    })
}

/// Names of locks that begin with the typed text, if the store lists them in time. A store that
/// hangs blocks only a thread, which ends with this process.
fn names(store: Option<StoreUrl>, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(prefix) = typed.to_str().map(str::to_owned) else { return Vec::new() };
    let (sender, receiver) = mpsc::channel();
    let asking = thread::Builder::new().spawn(move || {
        let _late = sender.send(ask(store.as_ref(), &prefix));
    });
    let asked = asking.ok().and_then(|_thread| receiver.recv_timeout(PATIENCE).ok());
    let mut names = asked.and_then(Result::ok).unwrap_or_default();
    names.sort();
    names.iter().map(|name| CompletionCandidate::new(name.as_str())).collect()
}

fn ask(store: Option<&StoreUrl>, prefix: &str) -> Result<Vec<LockName>, Failure> {
    let choice = store_choice::choose(store)?;
    if choice.url.file().is_some_and(|path| !path.exists()) {
        return Ok(Vec::new()); // a completion must not create a store
    }
    let quiet = Verbosity { quiet: true, verbose: false };
    connection::ask(&choice, quiet, async |client| Ok(client.admin().list(prefix, LIMIT).await?))
}

/// The store that is named in the words before the cursor.
fn given_store(words: &[OsString]) -> Option<StoreUrl> {
    let words = words.split_last().map_or(&[][..], |(_typed, before)| before);
    let words = words.split(|word| word == "--").next().unwrap_or_default();
    let texts: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    texts.iter().enumerate().find_map(|(at, word)| match *word {
        "-s" | "--store" => texts.get(at + 1).copied().map(StoreUrl::from),
        _ => word.strip_prefix("--store=").or(word.strip_prefix("-s")).map(StoreUrl::from),
    })
}
