//! What a process does with leasehold after a fork(2), on both sides of it.
//!
//! Each test is a process that forks, started by `main` with the test's name.

use std::error::Error as StdError;
use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fork::Fork;
use leasehold::blocking::{Client, Observation};
use leasehold::election::Observed;
use leasehold::error::StoreErrorKind;
use leasehold::store::{Memory, check_url};
use leasehold::{Error, LossReason};
use leasehold_data::blocking::Data;
use leasehold_testkit::harness::PATIENCE;
use leasehold_testkit::{Cluster, Postgres, RedisServer, SentinelFleet};
use libtest_mimic::{Arguments, Trial};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// The option that makes this program run one test by itself.
const ONLY: &str = "--only";

type Done = Result<(), Box<dyn StdError>>;

/// A test: its name, and its work in its own directory.
type Test = (&'static str, fn(&Path) -> Done);

const TESTS: &[Test] = &[
    ("a_client_is_made_anew_in_a_child_and_no_two_hold_at_once", both_sides_of_redis),
    ("a_file_that_the_parent_has_open_is_refused_in_a_child", file_is_refused),
    ("a_file_that_the_parent_has_closed_serves_a_child", closed_file_serves),
    ("a_guard_on_a_file_is_the_parents_and_is_not_let_go_in_a_child", guard_on_a_file),
    ("a_guard_on_redis_is_the_parents_and_is_not_let_go_in_a_child", guard_on_redis),
    ("a_killed_holder_is_noticed_although_its_child_lives", killed_holder),
    ("what_is_in_memory_begins_empty_in_a_child", memory_begins_empty),
    ("a_child_says_that_a_store_given_as_a_value_cannot_be_made_anew", value_is_refused),
    ("a_daemon_is_told_that_its_guard_was_left_behind", daemon_is_told),
    ("on_servers_with_sentinels_nothing_is_shared_with_a_child", shares_nothing_with_sentinels),
    ("on_a_cluster_nothing_is_shared_with_a_child", shares_nothing_on_a_cluster),
    ("on_a_quorum_nothing_is_shared_with_a_child", shares_nothing_on_a_quorum),
    ("on_postgres_nothing_is_shared_with_a_child", shares_nothing_on_postgres),
    ("a_leadership_is_the_parents_and_a_child_sees_it_and_succeeds_to_it", leads_in_a_child),
    ("a_child_gives_out_no_number_of_its_parents_block", numbers_stay),
    ("a_url_without_a_path_is_refused_before_connecting", url_is_checked),
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
        let guard = client.mutex("a").acquire_within(PATIENCE)?;
        fs::create_dir(&held).map_err(|error| format!("two hold at once: {error}"))?;
        tokens.write_all(format!("{}\n", guard.token().get()).as_bytes())?;
        std::thread::sleep(Duration::from_millis(3));
        fs::remove_dir(&held)?;
        guard.release()?;
    }
    Ok(())
}

fn both_sides_of_redis(directory: &Path) -> Done {
    let server = RedisServer::start()?;
    both_sides(&server.url(), directory)
}

fn both_sides(url: &str, directory: &Path) -> Done {
    let client = Client::connect(url)?;
    let lock = client.mutex("a");
    let before = lock.acquire()?;
    let id = before.holder().client;
    before.release()?;
    let children = (0..3).map(|_| {
        in_child(|| {
            let guard = lock.acquire_within(PATIENCE)?;
            expect(guard.holder().client != id, "a child has its own identity")?;
            guard.release()?;
            contend(&client, directory)
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

/// Neither a guard nor a connection is shared. A store has several connections, and threads that
/// drive them.
fn shares_nothing(url: &str, directory: &Path) -> Done {
    guard_stays(url)?;
    both_sides(url, directory)
}

fn shares_nothing_with_sentinels(directory: &Path) -> Done {
    let fleet = SentinelFleet::start()?;
    shares_nothing(&fleet.url(), directory)
}

fn shares_nothing_on_a_cluster(directory: &Path) -> Done {
    let cluster = Cluster::start(0)?;
    shares_nothing(&cluster.url(), directory)
}

fn shares_nothing_on_a_quorum(directory: &Path) -> Done {
    let nodes = (0..3).map(|_| RedisServer::start()).collect::<Result<Vec<_>, _>>()?;
    let places = nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
    let places = places.collect::<Vec<_>>().join(",");
    // Nobody holds anything on servers that are new.
    shares_nothing(&format!("redis+quorum://{places}/?quarantine=off"), directory)
}

fn shares_nothing_on_postgres(directory: &Path) -> Done {
    let Some(server) = Postgres::start_with(&["fsync=off"])? else {
        expect(std::env::var_os("CI").is_none(), "PostgreSQL is installed")?;
        println!("skipped: PostgreSQL is not installed: `cargo xtask test` does that");
        return Ok(());
    };
    shares_nothing(&server.url(), directory)
}

fn file_is_refused(directory: &Path) -> Done {
    let url = file_url(directory);
    let client = Client::connect(&url)?;
    client.mutex("a").acquire()?.release()?;
    let child = in_child(|| {
        for refused in [client.mutex("a").try_acquire().err(), Client::connect(&url).err()] {
            let Some(Error::Store(error)) = refused else { return Err("it was served".into()) };
            expect(error.kind() == StoreErrorKind::Unsupported, "it is unsupported")?;
            expect(error.to_string().contains("both sides of a fork"), &error.to_string())?;
        }
        drop(client.clone());
        Ok(())
    })?;
    contend(&client, directory)?;
    ended_well(child)
}

fn closed_file_serves(directory: &Path) -> Done {
    let url = file_url(directory);
    let client = Client::connect(&url)?;
    client.mutex("a").acquire()?.release()?;
    client.close()?;
    // The keeper's thread drops the store.
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let served = in_child(|| Ok(Client::connect(&url)?.mutex("a").acquire()?.release()?))?;
        match ended_well(served) {
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(()) => return Ok(()),
        }
    }
}

fn guard_on_a_file(directory: &Path) -> Done {
    guard_stays(&file_url(directory))
}

fn guard_on_redis(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    guard_stays(&server.url())
}

fn guard_stays(url: &str) -> Done {
    let client = Client::connect(url)?;
    let guard = client.mutex("a").acquire()?;
    let (mut client, mut guard) = (Some(client), Some(guard));
    let child = in_child(|| {
        let guard = guard.take().ok_or("a guard")?;
        expect(!guard.is_held() && guard.validity().is_zero(), "it is not held")?;
        expect(guard.loss() == Some(LossReason::Forked), "the loss says why")?;
        is_lost_by_the_fork(guard.renew())?;
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
    let released = in_child(|| is_lost_by_the_fork(guard.take().ok_or("a guard")?.release()))?;
    ended_well(child)?;
    ended_well(released)?;
    let (client, guard) = (client.ok_or("a client")?, guard.ok_or("a guard")?);
    expect(guard.is_held(), "the parent holds it")?;
    guard.renew()?;
    let another = Client::connect(url)?;
    expect(another.mutex("a").try_acquire()?.is_none(), "nobody else has it")?;
    guard.release()?;
    drop(client);
    Ok(another.mutex("a").acquire()?.release()?)
}

fn killed_holder(directory: &Path) -> Done {
    let url = file_url(directory);
    let (mut ready, is_ready) = io::pipe()?;
    let (until_end, end) = io::pipe()?;
    let holder = in_child(|| {
        drop(end.try_clone()?);
        let client = Client::connect(&url)?;
        let _guard = client.mutex("a").ttl(Duration::from_mins(5)).acquire()?;
        let mut until_end = until_end.try_clone()?;
        in_child(|| {
            leasehold::process::forked();
            (&is_ready).write_all(b"r")?;
            rustix::io::read(&until_end, &mut [0; 1])?;
            Ok(())
        })?;
        until_end.read_exact(&mut [0; 1])?;
        Ok(())
    })?;
    ready.read_exact(&mut [0; 1])?;
    kill_process(holder, Signal::KILL)?;
    waitpid(Some(holder), WaitOptions::empty())?;
    let client = Client::connect(&url)?;
    let noticed = client.mutex("a").acquire_within(Duration::from_secs(20));
    (&end).write_all(b"ee")?;
    noticed?.release()?;
    Ok(())
}

fn leads_in_a_child(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let client = Client::connect(server.url())?;
    let election = client.election("a");
    let leadership = election.campaign("the parent")?;
    let mut observation = election.observe()?;
    until_leads(&mut observation, "the parent")?;
    let (mut leadership, mut observation) = (Some(leadership), Some(observation));
    let beside = in_child(|| {
        let leadership = leadership.take().ok_or("a leadership")?;
        expect(leadership.loss() == Some(LossReason::Forked), "the loss says why")?;
        for refused in [leadership.ensure_held(), leadership.proclaim("a child")] {
            is_lost_by_the_fork(refused)?;
        }
        drop(leadership);
        let mut observation = observation.take().ok_or("an observation")?;
        for _ in 0..2 {
            let next = observation.next();
            expect(matches!(next, Err(Error::Forked)), &format!("it is refused: {next:?}"))?;
        }
        drop(observation);
        let leader = election.leader()?.ok_or("nobody leads")?;
        expect(leader.value == "the parent", &leader.value)?;
        until_leads(&mut election.observe()?, "the parent")
    })?;
    let resigns =
        in_child(|| is_lost_by_the_fork(leadership.take().ok_or("a leadership")?.resign()))?;
    ended_well(beside)?;
    ended_well(resigns)?;
    let (leadership, mut observation) =
        (leadership.ok_or("a leadership")?, observation.ok_or("an observation")?);
    leadership.ensure_held()?;
    leadership.proclaim("still the parent")?;
    until_leads(&mut observation, "still the parent")?;
    let (is_seen, see) = io::pipe()?;
    let mut see = Some(see);
    let successor = in_child(|| {
        // The process ends with its parent.
        drop(see.take());
        let leadership = election.campaign("a child")?;
        (&is_seen).read_exact(&mut [0; 1])?;
        Ok(leadership.resign()?)
    })?;
    leadership.resign()?;
    until_leads(&mut observation, "a child")?;
    see.ok_or("a pipe")?.write_all(b"s")?;
    ended_well(successor)
}

/// Watches until the candidate with this value leads.
fn until_leads(observation: &mut Observation, value: &str) -> Done {
    loop {
        if let Observed::Leader(leader) = observation.next()?
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

fn memory_begins_empty(_directory: &Path) -> Done {
    let client = Client::memory();
    let _guard = client.mutex("a").acquire()?;
    ended_well(in_child(|| {
        expect(client.mutex("a").try_acquire()?.is_some(), "it is free in the child")
    })?)?;
    expect(client.mutex("a").try_acquire()?.is_none(), "it is held in the parent")
}

fn value_is_refused(_directory: &Path) -> Done {
    let client = Client::builder().store(Memory::new()).build()?;
    client.mutex("a").acquire()?.release()?;
    ended_well(in_child(|| match client.mutex("a").acquire() {
        Err(Error::Forked) => Ok(()),
        other => Err(format!("{other:?}").into()),
    })?)
}

fn daemon_is_told(directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let url = server.url();
    let (mut told, tell) = io::pipe()?;
    let parent = in_child(|| {
        let client = Client::connect(&url)?;
        let guard = client.mutex("a").acquire()?;
        in_child(|| {
            expect(guard.loss() == Some(LossReason::Forked), "it was left behind")?;
            contend(&client, directory)?;
            (&tell).write_all(b"t")?;
            Ok(())
        })?;
        guard.release()?;
        Ok(())
    })?;
    ended_well(parent)?;
    drop(tell);
    told.read_exact(&mut [0; 1])?;
    Ok(())
}

fn numbers_stay(_directory: &Path) -> Done {
    let server = RedisServer::start()?;
    let numbers = Data::connect(server.url())?.numbers("a");
    let before = numbers.next()?;
    ended_well(in_child(|| {
        let refused = numbers.next();
        expect(matches!(refused, Err(Error::Forked)), &format!("it is refused: {refused:?}"))?;
        let own = Data::connect(server.url())?.numbers("a").next()?;
        expect(own.value() >= before.value() + 100, "a child that connects anew has its own block")
    })?)?;
    expect(numbers.next()?.value() == before.value() + 1, "the parent goes on with its block")
}

fn url_is_checked(_directory: &Path) -> Done {
    for url in ["file:", "file:/tmp/", "file:?history=2"] {
        expect(check_url(url).is_err(), url)?;
    }
    Ok(())
}
