//! `leasehold elect`: leads an election while a command runs, or tells who leads.

use std::slice::from_ref;
use std::time::Instant;

use leasehold::election::{Election, Leader};
use leasehold::lease::Mode;
use leasehold::{Client, FencingToken, LeaseOptions, LockName};
use serde::Serialize;

use super::hold::{Until, let_go, until_asked};
use crate::args::Elect;
use crate::child::guardian::idle::IdleGuardian;
use crate::child::leased_command::{CommandSpec, LeasedCommand};
use crate::child::program;
use crate::connection::{Connection, WaitBudget, connect};
use crate::report::{Failure, NO, Outcome, Voice, escaped, print, print_json};
use crate::runtime::block_on;
use crate::store_choice;

/// Stands for election, or looks at one.
pub(crate) fn elect(args: &Elect) -> Outcome {
    match &args.value {
        Some(value) => stand(args, value),
        None if args.listen => listen(args),
        None => show(args),
    }
}

/// Runs the command while leading, or leads until it is asked to stop.
fn stand(args: &Elect, value: &str) -> Outcome {
    let voice = Voice::from(args.voice);
    let mut options = LeaseOptions::default();
    options.ttl = args.ttl;
    options.check()?;
    let kill_after = args.end.kill_after(args.ttl)?;
    if let Some(program) = args.command.first() {
        program::look_up(program)?;
    }
    let spec = CommandSpec {
        kill_after,
        max_hold: None,
        on_lost: args.end.on_lost,
        signal: args.end.signal,
        voice,
    };
    let choice = store_choice::choose(args.store.store.as_ref())?;
    block_on(async {
        let mut connection = Connection::open(&choice, voice, WaitBudget::Forever).await?;
        let election = connection.client.election(&args.name).options(options);
        let outcome = lead(args, value, spec, &mut connection, &election).await;
        connection.close(outcome).await
    })?
}

async fn lead(
    args: &Elect,
    value: &str,
    spec: CommandSpec<'_>,
    connection: &mut Connection,
    election: &Election,
) -> Outcome {
    let asked_at = Instant::now();
    let campaign = async { Ok(election.campaign(value).await?) };
    let leadership = connection.wait(from_ref(&args.name), Mode::Exclusive, campaign).await?;
    connection.settle(leadership.guard(), args.ttl, asked_at).await?;
    if args.command.is_empty() {
        until_asked(connection, leadership.guard(), args.ttl, Until::default(), spec.voice).await?;
        let resigned = leadership.resign().await;
        return let_go(connection, from_ref(&args.name), resigned, None, spec.voice);
    }
    let guard = leadership.guard().reenter()?;
    // Not before it leads: a candidate may wait for months.
    let outcome = match IdleGuardian::start(&args.command) {
        Ok(guardian) => LeasedCommand::run(spec, guardian, connection, guard).await,
        Err(failure) => Err(failure),
    };
    if let Err(error) = leadership.resign().await {
        // A loss was told when it was noticed.
        spec.voice.detail(error);
    }
    outcome
}

/// A line for every change, until somebody ends this or stops reading.
fn listen(args: &Elect) -> Outcome {
    let told = watch(args, async |election| {
        let mut observation = election.observe().await?;
        loop {
            tell(args, observation.next().await?.as_ref())?;
        }
    });
    told.map(|never: std::convert::Infallible| match never {})
}

fn tell(args: &Elect, leader: Option<&Leader>) -> Result<(), Failure> {
    if args.json {
        return print_json(&View::new(&args.name, leader));
    }
    let name = escaped(args.name.as_str());
    match leader {
        Some(Leader { token, value, .. }) => {
            print(format_args!("{name}: {} leads with token {token}", escaped(value)))
        }
        None => print(format_args!("{name}: nobody leads")),
    }
}

/// The leader's value; exit code 1 if nobody leads.
fn show(args: &Elect) -> Outcome {
    let leader = watch(args, async |election| Ok(election.leader().await?))?;
    match &leader {
        leader if args.json => print_json(&View::new(&args.name, leader.as_ref()))?,
        Some(Leader { value, .. }) => print(escaped(value))?,
        None => {}
    }
    Ok(if leader.is_some() { 0 } else { NO })
}

/// Does something with the election that takes no part in it.
fn watch<T>(
    args: &Elect,
    look: impl AsyncFnOnce(&Election) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let choice = store_choice::choose(args.store.store.as_ref())?;
    block_on(async {
        let client: Client = connect(&choice, Voice::from(args.voice)).await?;
        choice.warn_if_local(Voice::from(args.voice));
        let seen = look(&client.election(&args.name)).await;
        client.close().await?;
        seen
    })?
}

/// Who leads, as JSON.
#[derive(Serialize)]
struct View<'a> {
    name: &'a LockName,
    leader: Option<LeaderView<'a>>,
}

#[derive(Serialize)]
struct LeaderView<'a> {
    value: &'a str,
    token: FencingToken,
}

impl<'a> View<'a> {
    fn new(name: &'a LockName, leader: Option<&'a Leader>) -> Self {
        let view = |leader: &'a Leader| LeaderView { value: &leader.value, token: leader.token };
        Self { name, leader: leader.map(view) }
    }
}
