//! The leases of a process are released when it ends, however its `main` ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::exit;

use leasehold::blocking::wait;
use leasehold::{Client, Error, Guard, LockName, Result};
use leasehold_testkit::worker::Worker;
use leasehold_testkit::{RedisServer, must};
use tokio::runtime::{Builder, Runtime};

fn runtime(kind: &str) -> Runtime {
    let mut builder = match kind {
        "threads" => Builder::new_multi_thread(),
        _ => Builder::new_current_thread(),
    };
    must(builder.worker_threads(1).enable_all().build())
}

/// A process of the tests below, which ends in one way or another.
pub(super) fn job(end: &str, url: &str) {
    drop(catch_unwind(AssertUnwindSafe(|| main_that_ends(end, url))));
    // As fast as a program ends when its `main` returns.
    exit(0);
}

fn main_that_ends(end: &str, url: &str) -> Result<()> {
    let (kind, end) = end.split_once(' ').unwrap_or((end, ""));
    if kind == "blocking" {
        let client = wait(Client::connect(url))?;
        let _guard = wait(client.mutex("a").acquire())?;
        return finish(end);
    }
    runtime(kind).block_on(async {
        if end == "guard last" {
            let _guard: Guard = Client::connect(url).await?.mutex("a").acquire().await?;
            return Ok(());
        }
        let client = Client::connect(url).await?;
        let _guard = client.mutex("a").acquire().await?;
        finish(end)
    })
}

fn finish(end: &str) -> Result<()> {
    match end {
        "error" => Err(Error::Closed),
        "panic" => panic!("on purpose"),
        _ => Ok(()),
    }
}

const ENDS: [&str; 9] = [
    "blocking return",
    "blocking error",
    "blocking panic",
    "single return",
    "single error",
    "single panic",
    "single guard last",
    "threads return",
    "threads panic",
];

#[test]
fn what_is_held_as_main_ends_is_let_go() {
    let server = must(RedisServer::start());
    let url = server.patient_url();
    let runtime = runtime("single");
    let client = must(runtime.block_on(Client::connect(&url)));
    let name = must(LockName::new("a"));
    for round in 0..3 {
        for end in ENDS {
            let granted = || server.command::<u64>("GET lh:%token").unwrap_or_default();
            let before = granted();
            Worker::start(&["ending", end, &url]).finish();
            assert!(granted() > before, "{end}: it was never held");
            let status = must(runtime.block_on(client.admin().inspect(&name)));
            assert!(status.is_free(), "round {round}: {end}: {:?}", status.holders);
        }
    }
}
