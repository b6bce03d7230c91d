//! The tasks of this repository.
//!
//! Few dependencies, so that a fresh clone runs its first task within a minute.
#![forbid(unsafe_code)]

mod api;
mod book;
mod bugs;
mod layers;
mod lines;
mod messages;
mod needs;
mod programs;
mod promises;
mod prose;
mod python;
mod run;
mod suite;
mod tidy;
mod tree;

use std::process::ExitCode;

use crate::run::{Outcome, Run};

const USAGE: &str = "\
usage: cargo xtask TASK

  quick            format, clippy, unit tests, conformance on memory and file: under three minutes
  test [--long]    the whole mandatory suite; --long plays random runs for hours
  tidy [--report]  the house style, and that no crate grows; --report: the lines of each crate
  limits           lowers the limits of lines to what is there
  layers           who imports whom, and no rings
  messages         writes docs/messages.md: the texts of the library and the command
  api              writes the public API of what is published into `api`
  book             builds the pages as a book, in `target/book/html`
  bugs [NAME...]   switches on each named bug, or those named, and the tests must find it
  bench [NAME...]  all benchmarks, or those named, in release mode; `python`: beside redis-py
  python [--long]  builds, installs and tests the Python package; --long: with each interpreter
  platforms        the library for Windows, macOS and Linux on aarch64, also under wine and qemu
  releases [REV]   beside the last tag, or REV: a fleet of both in one queue, and the API by semver
  resolves         the library beside the crates that programs have already
  servers          the tests of stores on Redis 8.0, Valkey 8.0 and 9.1, PostgreSQL 17 and 18
  dist             what is given to users, in `target/dist`: a package, an archive, sums, an SBOM
  wheels           the wheels of the Python package and of the command, in `target/wheels`";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["api"] => api::update(),
        ["bench", "python"] => python::bench(),
        ["bench", names @ ..] => bench(names),
        ["book"] => book::run(),
        ["bugs", names @ ..] => programs::build().and_then(|built| bugs::run(&built, names)),
        ["dist"] => Run::program("packaging/dist.sh", &[]).show(),
        ["layers"] => layers::run(),
        ["limits"] => lines::lower(),
        ["messages"] => messages::update(),
        ["platforms"] => Run::program("tests/platforms.sh", &[]).show(),
        ["python"] => python::run(false),
        ["python", "--long"] => python::run(true),
        ["quick"] => suite::quick(),
        ["releases", revision @ ..] if revision.len() < 2 => {
            Run::program("tests/releases.sh", revision).show()
        }
        ["resolves"] => Run::program("tests/resolves.sh", &[]).show(),
        ["servers"] => Run::program("tests/servers.sh", &[]).show(),
        ["test"] => suite::run(false),
        ["test", "--long"] => suite::run(true),
        ["tidy"] => tidy::run(),
        ["tidy", "--report"] => lines::report(),
        ["wheels"] => Run::program("packaging/wheels.sh", &[]).show(),
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

/// The command is built, too: one of the benchmarks runs it.
fn bench(names: &[&str]) -> Outcome {
    let release = ["--release", "--locked", "--package"];
    Run::cargo(&[&["build"], &release[..], &["leasehold-cli"]].concat()).show()?;
    Run::cargo(&[&["run"], &release[..], &["leasehold-benches", "--"], names].concat()).show()
}
