//! Benchmarks of leasehold, the raw scripts of the Redis documentation, and peers.
//!
//! `cargo xtask bench [NAME…]` runs all of them, or those named, against private servers that it
//! starts. What is compared in one table was measured in one run, in turns.
#![forbid(unsafe_code)]

mod alone;
mod contended;
mod contender;
mod file;
mod line;
mod measure;
mod outcome;
mod peers;
mod postgres;
mod process;
mod quorum;
mod scale;
mod server;
mod together;

use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::outcome::Outcome;

/// The hidden task that runs one benchmark in this process.
const ONE: &str = "one";

const USAGE: &str = "usage: leasehold-benches \
    [alone|bloat|contended|file|held|idle|line|peers|postgres|quorum|together|waiters]…";

/// The benchmarks, in the order in which they are run.
const ALL: [&str; 12] = [
    "alone",
    "contended",
    "line",
    "together",
    "file",
    "postgres",
    "bloat",
    "quorum",
    "held",
    "waiters",
    "idle",
    "peers",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [file::WAIT, url, name] => block_on(file::wait(url, name)),
        [peers::PEER, arguments @ ..] => block_on(peers::run_ours(arguments)),
        [line::PEER, url, slice, begin] => block_on(line::peer(url, slice, begin)),
        [ONE, name] => raise_file_limit().and_then(|()| block_on(one(name))),
        [] => all(&ALL),
        names => all(names),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("leasehold-benches: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs each benchmark in a separate process, so that the memory of one does not affect the next.
fn all(names: &[&str]) -> Outcome {
    if let Some(wrong) = names.iter().find(|name| !ALL.contains(name)) {
        return Err(format!("no benchmark {wrong:?}; {USAGE}").into());
    }
    println!("{}\n", process::machine());
    for name in names {
        let end = Command::new(std::env::current_exe()?).args([ONE, name]).status()?;
        if !end.success() {
            return Err(format!("{name} failed ({end})").into());
        }
    }
    Ok(())
}

async fn one(name: &str) -> Outcome {
    match name {
        "alone" => alone::run().await,
        "bloat" => postgres::run_bloat().await,
        "contended" => contended::run().await,
        "file" => file::run().await,
        "held" => scale::run_held().await,
        "idle" => scale::run_idle().await,
        "line" => line::run(),
        "peers" => peers::run(),
        "postgres" => postgres::run().await,
        "quorum" => quorum::run().await,
        "together" => together::run().await,
        "waiters" => scale::run_waiters().await,
        _ => Err(USAGE.into()),
    }
}

fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// A thousand clients with their own connections need a few thousand files, and so does the server,
/// which inherits the limit.
fn raise_file_limit() -> Outcome {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(())
}
