//! What a process does with leasehold after a fork(2), on both sides of it.
//!
//! Each test is a process that forks, started by `main` with the test's name.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fork::Fork;
use leasehold::blocking::wait;
use leasehold::election::{Observation, Observed};
use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, LossReason};
use leasehold_data::Data;
use leasehold_testkit::harness::PATIENCE;
use leasehold_testkit::{Postgres, RedisServer};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, WaitOptions, waitpid};

/// The option that makes this program run one test by itself.
const ONLY: &str = "--only";

type Done = Result<(), Box<dyn StdError>>;

/// A test: its name, and its work in its own directory.
type Test = (&'static str, fn(&Path) -> Done);

const TESTS: &[Test] = &[
    ("a_client_of_the_parent_is_refused_and_one_of_the_child_competes", both_sides),
    ("a_file_store_is_refused_in_a_child_while_the_parent_has_one_open", file_is_refused),
    ("a_guard_on_a_file_is_the_parents_and_is_not_released_in_a_child", guard_on_a_file),
    ("a_guard_on_redis_is_the_parents_and_is_not_released_in_a_child", guard_on_redis),
    ("a_guard_on_postgres_is_the_parents_and_is_not_released_in_a_child", guard_on_postgres),
    ("a_leadership_is_the_parents_and_a_child_cannot_use_it", leadership_stays),
    ("a_child_gives_out_no_number_of_its_parents_block", numbers_stay),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = &arguments[..]
        && flag == ONLY
    {
        return match alone(name) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{error}");
                ExitCode::FAILURE
            }
        };
    }
    let trials = TESTS.iter().map(|(name, _)| Trial::test(*name, || Ok(in_own_process(name)?)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Runs a test in this process, which has no thread beside this one.
fn alone(name: &str) -> Done {
    let (_, test) = TESTS.iter().find(|(test, _)| *test == name).ok_or("no test of that name")?;
    test(tempfile::tempdir()?.path())
}

fn in_own_process(name: &str) -> Result<(), String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let ended = Command::new(own).args([ONLY, name]).output().map_err(|error| error.to_string())?;
    // The output says that the test was skipped.
    print!("{}", String::from_utf8_lossy(&ended.stdout));
    match ended.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

/// Forks: the child ends with the result of `child`, and the parent gets the child's id.
fn in_child(child: impl FnOnce() -> Done) -> io::Result<Pid> {
    match fork::fork()? {
        Fork::Parent(id) => Pid::from_raw(id).ok_or_else(|| io::Error::other("no id")),
        Fork::Child => {
            let done = child();
            if let Err(error) = &done {
                eprintln!("child: {error}");
            }
            std::process::exit(i32::from(done.is_err()));
        }
    }
}

fn ended_well(child: Pid) -> Done {
    let ended = waitpid(Some(child), WaitOptions::empty())?;
    let code = ended.and_then(|(_, status)| status.exit_status());
    expect(code == Some(0), "the child ended well")
}

fn expect(is_so: bool, what: &str) -> Done {
    if is_so { Ok(()) } else { Err(format!("not so: {what}").into()) }
}

fn file_url(directory: &Path) -> String {
    format!("file:{}", directory.join("locks.db").display())
}

/// Takes and releases for 2 s. The holder makes a directory: two at the same time would fail.
fn contend(client: &Client, directory: &Path) -> Done {
    let mut tokens = OpenOptions::new().append(true).create(true).open(directory.join("tokens"))?;
    let (end, held) = (Instant::now() + Duration::from_secs(2), directory.join("held"));
    while Instant::now() < end {
        let guard = wait(client.mutex("a").acquire_within(PATIENCE))?;
        fs::create_dir(&held).map_err(|error| format!("two hold at once: {error}"))?;
        tokens.write_all(format!("{}\n", guard.token().get()).as_bytes())?;
        std::thread::sleep(Duration::from_millis(3));
        fs::remove_dir(&held)?;
        wait(guard.release())?;
    }
    Ok(())
}

fn both_sides(directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let client = wait(Client::connect(server.url()))?;
    let lock = client.mutex("a");
    wait(wait(lock.acquire())?.release())?;
    let children = (0..3).map(|_| {
        in_child(|| {
            is_refused(wait(lock.try_acquire()))?;
            is_refused(wait(client.admin().list("", 1)))?;
            drop(client.clone());
            contend(&wait(Client::connect(server.url()))?, directory)
        })
    });
    let children = children.collect::<Result<Vec<_>, _>>()?;
    contend(&client, directory)?;
    children.into_iter().try_for_each(ended_well)?;
    let text = fs::read_to_string(directory.join("tokens"))?;
    let mut tokens: Vec<&str> = text.lines().collect();
    let all = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    // Each side was granted the lock at least once.
    expect(tokens.len() == all && all >= 4, "each grant has a new token")
}

fn is_refused<T: Debug>(outcome: leasehold::Result<T>) -> Done {
    match outcome {
        Err(Error::Forked) => Ok(()),
        other => Err(format!("not refused: {other:?}").into()),
    }
}

fn file_is_refused(directory: &Path) -> Done {
    let url = file_url(directory);
    let client = wait(Client::connect(&url))?;
    wait(wait(client.mutex("a").acquire())?.release())?;
    let child = in_child(|| {
        is_refused(wait(client.mutex("a").try_acquire()))?;
        let Some(Error::Store(error)) = wait(Client::connect(&url)).err() else {
            return Err("it was served".into());
        };
        expect(error.kind() == StoreErrorKind::Unsupported, "it is unsupported")?;
        expect(error.to_string().contains("both sides of a fork"), &error.to_string())
    })?;
    contend(&client, directory)?;
    ended_well(child)?;
    wait(client.close())?;
    for _ in 0..20 {
        // What the program still has of a closed client does not keep the file open.
        let client = wait(Client::connect(&url))?;
        let _guard = wait(client.mutex("a").acquire())?;
        wait(client.clone().close())?;
        ended_well(in_child(|| {
            Ok(wait(wait(wait(Client::connect(&url))?.mutex("a").acquire())?.release())?)
        })?)?;
    }
    Ok(())
}

fn guard_on_a_file(directory: &Path) -> Done {
    guard_stays(&file_url(directory))
}

fn guard_on_redis(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    guard_stays(&server.url())
}

fn guard_on_postgres(_directory: &Path) -> Done {
    let Some(server) = Postgres::start_with(&["fsync=off"])? else {
        expect(std::env::var_os("CI").is_none(), "PostgreSQL is installed")?;
        println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
        return Ok(());
    };
    guard_stays(&server.url())
}

fn guard_stays(url: &str) -> Done {
    let client = wait(Client::connect(url))?;
    let guard = wait(client.mutex("a").acquire())?;
    let (mut client, mut guard) = (Some(client), Some(guard));
    let child = in_child(|| {
        let guard = guard.take().ok_or("a guard")?;
        expect(!guard.is_held() && guard.validity().is_zero(), "it is not held")?;
        expect(guard.loss() == Some(LossReason::Forked), "the loss says why")?;
        is_lost_by_the_fork(guard.ensure_held())?;
        is_lost_by_the_fork(wait(guard.renew()))?;
        let (sender, receiver) = std::sync::mpsc::channel();
        guard.on_lost(move |reason| {
            let _unheard = sender.send(reason);
        });
        let told = receiver.recv_timeout(Duration::from_secs(10))?;
        expect(told == LossReason::Forked, "who wants to know of the loss is told")?;
        drop(guard);
        drop(client.take());
        Ok(())
    })?;
    let released =
        in_child(|| is_lost_by_the_fork(wait(guard.take().ok_or("a guard")?.release())))?;
    ended_well(child)?;
    ended_well(released)?;
    let (client, guard) = (client.ok_or("a client")?, guard.ok_or("a guard")?);
    expect(guard.is_held(), "the parent holds it")?;
    wait(guard.renew())?;
    let another = wait(Client::connect(url))?;
    expect(wait(another.mutex("a").try_acquire())?.is_none(), "nobody else has it")?;
    wait(guard.release())?;
    drop(client);
    Ok(wait(wait(another.mutex("a").acquire())?.release())?)
}

fn leadership_stays(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let client = wait(Client::connect(server.url()))?;
    let election = client.election("a");
    let leadership = wait(election.campaign("the parent"))?;
    let mut observation = wait(election.observe())?;
    until_leads(&mut observation, "the parent")?;
    let (mut leadership, mut observation) = (Some(leadership), Some(observation));
    let beside = in_child(|| {
        let leadership = leadership.take().ok_or("a leadership")?;
        expect(leadership.guard().loss() == Some(LossReason::Forked), "the loss says why")?;
        is_lost_by_the_fork(leadership.guard().ensure_held())?;
        is_lost_by_the_fork(wait(leadership.proclaim("a child")))?;
        is_lost_by_the_fork(wait(leadership.resign()))?;
        let mut observation = observation.take().ok_or("an observation")?;
        is_refused(wait(observation.next()))?;
        is_refused(wait(election.leader()))
    })?;
    ended_well(beside)?;
    let (leadership, mut observation) =
        (leadership.ok_or("a leadership")?, observation.ok_or("an observation")?);
    leadership.guard().ensure_held()?;
    wait(leadership.proclaim("still the parent"))?;
    until_leads(&mut observation, "still the parent")
}

/// Watches until the candidate with this value leads.
fn until_leads(observation: &mut Observation, value: &str) -> Done {
    loop {
        if let Observed::Leader(leader) = wait(observation.next())?
            && leader.value == value
        {
            return Ok(());
        }
    }
}

fn is_lost_by_the_fork<T: Debug>(outcome: leasehold::Result<T>) -> Done {
    match outcome {
        Err(Error::Lost { reason: LossReason::Forked, .. }) => Ok(()),
        other => Err(format!("not refused: {other:?}").into()),
    }
}

fn numbers_stay(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let numbers = wait(Data::connect(server.url()))?.numbers("a");
    let before = wait(numbers.next())?;
    ended_well(in_child(|| {
        is_refused(wait(numbers.next()))?;
        let own = wait(wait(Data::connect(server.url()))?.numbers("a").next())?;
        expect(own.value() >= before.value() + 100, "a child that connects anew has its own block")
    })?)?;
    expect(wait(numbers.next())?.value() == before.value() + 1, "the parent goes on with its block")
}
