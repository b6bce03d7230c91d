//! `leasehold elect`: leads an election while a command runs, or shows the leader.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::slice::from_ref;
use std::time::Instant;

use leasehold::admin::Status;
use leasehold::election::{Election, Leader, Observed};
use leasehold::error::StoreError;
use leasehold::lease::Mode;
use leasehold::{Client, FencingToken, LeaseOptions, LockName};
use serde::Serialize;

use super::hold::{let_go, until_asked};
use super::status_view::HolderView;
use crate::args::Elect;
use crate::child::guardian::idle::IdleGuardian;
use crate::child::leased_command::{CommandSpec, LeasedCommand};
use crate::child::program;
use crate::connection::{Connection, ask};
use crate::moment::{iso, now_ms};
use crate::report::{Failure, NO, Outcome, escaped, print, print_json};
use crate::runtime::block_on;

/// Becomes a candidate, or observes the election.
pub(crate) fn elect(args: &Elect) -> Outcome {
    match &args.value {
        Some(value) => stand(args, value),
        None if args.listen => listen(args),
        None => show(args),
    }
}

/// Runs the command while leading. Without a command, leads until this process is asked to stop.
fn stand(args: &Elect, value: &str) -> Outcome {
    let options = LeaseOptions { ttl: args.ttl, ..LeaseOptions::default() };
    options.check()?;
    let kill_after = args.end.kill_after(args.ttl)?;
    if let Some(program) = args.command.first() {
        program::look_up(program)?;
    }
    let ready_file = args.ready_file.as_deref();
    let spec = CommandSpec { end: &args.end, kill_after, max_hold: None, ready_file };
    let choice = args.store.choose()?;
    let ready = ReadyFile::at(ready_file)?;
    let outcome = block_on(async {
        let mut connection = Connection::open(&choice, args.store.verbosity, None).await?;
        ready.say("stands by")?;
        let election = connection.client.election(&args.name).options(options);
        let outcome = lead(args, value, spec, &mut connection, &election, &ready).await;
        connection.close(outcome).await
    });
    ready.remove();
    outcome?
}

async fn lead(
    args: &Elect,
    value: &str,
    spec: CommandSpec<'_>,
    connection: &mut Connection,
    election: &Election,
    ready: &ReadyFile,
) -> Outcome {
    let asked_at = Instant::now();
    let campaign = async { Ok(election.campaign(value).await?) };
    let leadership = connection.wait(from_ref(&args.name), Mode::Exclusive, campaign).await?;
    connection.settle(leadership.guard(), args.ttl, asked_at).await?;
    ready.say("leads")?;
    let at_a_loss = ready.clone();
    leadership.guard().on_lost(move |_| at_a_loss.remove());
    if args.command.is_empty() {
        until_asked(connection, leadership.guard(), args.ttl, None, None).await?;
        let resigned = leadership.resign().await;
        return let_go(connection, from_ref(&args.name), resigned, None);
    }
    let guard = leadership.guard().reenter()?;
    // The guardian is started only when the candidate leads, which may take months.
    let outcome = match IdleGuardian::start(&args.command) {
        Ok(guardian) => LeasedCommand::run(spec, guardian, connection, guard).await,
        Err(failure) => Err(failure),
    };
    if let Err(error) = leadership.resign().await {
        // A loss was reported when it was noticed.
        connection.verbosity.detail(error);
    }
    outcome
}

/// Prints a line for every change, until a signal comes or nobody reads any more.
fn listen(args: &Elect) -> Outcome {
    let told = watch(args, async |_, election| {
        let mut observation = election.observe().await?;
        let mut is_away = false;
        loop {
            let observed = observation.next().await?;
            let was_away = std::mem::replace(&mut is_away, matches!(observed, Observed::Away(_)));
            if was_away {
                tell_of_store(args, None)?;
            }
            match &observed {
                Observed::Leader(leader) => tell(args, Some(leader))?,
                Observed::Nobody => tell(args, None)?,
                Observed::Away(why) => tell_of_store(args, Some(why))?,
            }
        }
    });
    told.map(|never: std::convert::Infallible| match never {})
}

fn tell(args: &Elect, leader: Option<&Leader>) -> Result<(), Failure> {
    if args.json {
        return print_json(&ElectionView::new(&args.name, leader, &Status::default()));
    }
    let name = escaped(args.name.as_str());
    match leader {
        Some(Leader { token, value, .. }) => {
            print(format_args!("{name}: {} leads with token {token}", escaped(value)))
        }
        None => print(format_args!("{name}: nobody leads")),
    }
}

/// Prints that the store is away and why, or that it is back.
fn tell_of_store(args: &Elect, why: Option<&StoreError>) -> Result<(), Failure> {
    let why = why.map(ToString::to_string);
    if args.json {
        let change = if why.is_some() { "away" } else { "back" };
        return print_json(&StoreView { change, at: iso(now_ms()), why });
    }
    let name = escaped(args.name.as_str());
    match why {
        Some(why) => print(format_args!("{name}: the store is away: {}", escaped(&why))),
        None => print(format_args!("{name}: the store is back")),
    }
}

/// Prints the leader's value, or as JSON also its process and its lease, with the fields of
/// `show --json`; exit code 1 if nobody leads.
fn show(args: &Elect) -> Outcome {
    let (leader, status) = watch(args, async |client, election| {
        let leader = election.leader().await?;
        let status = match args.json {
            true => client.admin().inspect(&args.name).await?,
            false => Status::default(),
        };
        Ok((leader, status))
    })?;
    match (&leader, args.json) {
        (_, true) => print_json(&ElectionView::new(&args.name, leader.as_ref(), &status))?,
        (Some(leader), false) => print(escaped(&leader.value))?,
        (None, false) => {}
    }
    Ok(if leader.is_some() { 0 } else { NO })
}

/// Runs requests on an election in which this process is no candidate.
fn watch<T>(
    args: &Elect,
    look: impl AsyncFnOnce(&Client, &Election) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (verbosity, choice) = (args.store.verbosity, args.store.choose()?);
    ask(&choice, verbosity, async |client| {
        choice.warn_if_local(verbosity);
        look(client, &client.election(&args.name)).await
    })
}

/// A change of the store as JSON.
#[derive(Serialize)]
struct StoreView {
    change: &'static str,
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The leader, as JSON.
#[derive(Serialize)]
struct ElectionView<'a> {
    name: &'a LockName,
    leader: Option<LeaderView<'a>>,
}

/// The facts about the leader: all that is known of its hold, or only the token of it.
#[derive(Serialize)]
struct LeaderView<'a> {
    value: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<FencingToken>,
    #[serde(flatten)]
    holder: Option<HolderView<'a>>,
}

impl<'a> ElectionView<'a> {
    fn new(name: &'a LockName, leader: Option<&'a Leader>, status: &'a Status) -> Self {
        let view = |&Leader { ref value, token, .. }: &'a Leader| {
            // If another process leads by now, the next call finds it.
            let holder = status.holders.iter().find(|holder| holder.token == Some(token));
            let holder = holder.map(|holder| HolderView::new(holder, now_ms()));
            LeaderView { value, token: holder.is_none().then_some(token), holder }
        };
        Self { name, leader: leader.map(view) }
    }
}

/// A file that says `stands by` or `leads` as long as that is true, and is removed afterwards.
#[derive(Clone, Debug)]
struct ReadyFile(Option<PathBuf>);

impl ReadyFile {
    /// A file that will be at this path. Removes a file that a killed process has left there.
    ///
    /// # Errors
    ///
    /// If that file cannot be removed.
    fn at(path: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = path
            && let Err(error) = fs::remove_file(path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(refused(path, &error));
        }
        Ok(Self(path.map(Path::to_path_buf)))
    }

    /// Replaces the file in one step, so that nobody reads half a word. The new file has a random
    /// name first, and links are not followed: other users may write to the directory.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    fn say(&self, state: &str) -> Result<(), Failure> {
        let Some(path) = &self.0 else { return Ok(()) };
        let directory = path.parent().filter(|it| !it.as_os_str().is_empty());
        let written = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory.unwrap_or(Path::new(".")))
            .and_then(|mut file| writeln!(file, "{state}").map(|()| file))
            .and_then(|file| Ok(file.persist(path)?));
        written.map(drop).map_err(|error| refused(path, &error))
    }

    fn remove(&self) {
        // An error cannot be handled here. The next start reports it.
        let _gone = self.0.as_ref().map(fs::remove_file);
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("--ready-file {}: {error}", escaped(&path.to_string_lossy())))
}
