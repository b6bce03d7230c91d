//! `cargo xtask bench`: the benchmarks, in release mode, one table each.

use std::path::Path;

use crate::Outcome;
use crate::command::Run;
use crate::needs;

/// Runs the benchmarks named, or all of them.
pub(crate) fn run(root: &Path, names: &[&str]) -> Outcome {
    needs::redis_server()?;
    let binary = ["run", "--release", "--locked", "--package", "leasehold-benches", "--"];
    Run::cargo(root, &[&binary, names].concat()).show()
}
