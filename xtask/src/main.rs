//! The tasks of this repository:
//! `cargo xtask {test,mutants,fuzz,campaign,soak,tidy,layers,api,bench,dist,servers}`.
//!
//! Few dependencies, so that a fresh clone runs its first task within a minute.
#![forbid(unsafe_code)]

mod api;
mod apt;
mod bench;
mod campaign;
mod command;
mod dist;
mod fuzz;
mod layers;
mod matrix;
mod mirror;
mod mixed;
mod mutants;
mod needs;
mod outcome;
mod packages;
mod promises;
mod publish;
mod servers;
mod source;
mod test;
mod test_programs;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::mutants::Extent;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--long]    the whole mandatory suite; --long plays random runs for hours
  test --servers   the tests of stores, once on every server of `target/servers`
  campaign [SPAN] [--seed N] [--topology NAME]... [--controls] [--release] [--runs DIRECTORY]
                   processes that are stopped and killed, on stores that are hurt: on every kind or
                   on those named, for a minute each or as long as said (10m); what came of it is
                   kept in the directory, `target/campaign` if none is named; --controls puts other
                   libraries in the place of leasehold, --release is optimized
  campaign --report [DIRECTORY]
                   makes docs/evidence of the runs that are kept there
  soak [MINUTES]   acquires for eight hours or as long as said, and fails if anything grows
  tidy             the house style, as far as a program can tell
  layers           the direction of imports between modules and between crates; no rings
  layers --report  how each package is built: its parts, their sizes and who imports whom
  api              writes the public API of what is published into `api`
  api --check      compares it with what is there
  mutants [--long] [BUG...]
                   switches on each named bug, or those named, and the tests must find it;
                   --long runs all tests of their programs
  mutants core [FILE...]
                   what cargo-mutants would change in leasehold-core, or in some files of it; who
                   survives must be on its list
  fuzz [SPAN] [TARGET]...
                   feeds what reads bytes from outside, all of it or the targets named, for ten
                   seconds each or as long as said (10m)
  fuzz keep [TARGET]...
                   takes into the corpus that the suite reads what reaches something new
  bench [NAME]     all benchmarks, or the one named, in release mode
  dist             what is given to users, in `target/dist`: a package, an archive, sums, an SBOM
  servers          fetches Redis 8.0, Valkey 8.0 and 9.1 into `target/servers`";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match arguments.as_slice() {
        ["api"] => api::update(&root),
        ["api", "--check"] => api::check(&root),
        ["bench", names @ ..] => bench::run(&root, names),
        ["campaign", "--report", runs @ ..] => campaign::report(&root, runs),
        ["campaign", how @ ..] => campaign::run(&root, how),
        ["dist"] => dist::run(&root),
        ["fuzz", "keep", names @ ..] => fuzz::keep(&root, names),
        ["fuzz", how @ ..] => fuzz::run(&root, how),
        ["layers"] => layers::run(&root),
        ["layers", "--report"] => layers::report(&root),
        ["mutants", "core", how @ ..] => mutants::core(&root, how),
        ["mutants", "--long", names @ ..] => mutants::run(&root, Extent::Whole, names),
        ["mutants", names @ ..] => mutants::run(&root, Extent::Listed, names),
        ["soak", how @ ..] => campaign::soak(&root, how),
        ["servers"] => servers::run(&root),
        ["test"] => test::run(&root, test::Length::Mandatory),
        ["test", "--long"] => test::run(&root, test::Length::Long),
        ["test", "--servers"] => test::on_every_server(&root),
        ["tidy"] => tidy::run(&root),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: FAILED: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace: the directory above this package.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package).to_path_buf()
}
