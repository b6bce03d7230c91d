//! `cargo xtask bench`: the benchmarks, in release mode, one table each.

use std::path::Path;

use crate::command::Run;
use crate::needs;
use crate::outcome::Outcome;

/// Runs the benchmarks named, or all of them. The command is built too: one of them runs it.
pub(crate) fn run(root: &Path, names: &[&str]) -> Outcome {
    needs::redis_server()?;
    let command = ["build", "--release", "--locked", "--package", "leasehold-cli"];
    Run::cargo(root, &command).show()?;
    let benches = ["run", "--release", "--locked", "--package", "leasehold-benches", "--"];
    Run::cargo(root, &[&benches, names].concat()).show()
}
