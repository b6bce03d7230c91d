//! The tasks of this repository: `cargo xtask {test,tidy,layers,bench}`.
//!
//! Nothing but the standard library, so that a fresh clone runs its first task within seconds.
#![forbid(unsafe_code)]

mod bench;
mod command;
mod layers;
mod needs;
mod promises;
mod source;
mod test;
mod tidy;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [--long]   the whole mandatory suite; --long plays random runs for hours
  tidy            the house style, as far as a program can tell
  layers          the direction of imports between modules and between crates
  bench [NAME]    all benchmarks, or the one named, in release mode";

/// What a task ends with: done, or one line that says what is wrong and where.
type Outcome<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match arguments.as_slice() {
        ["bench", names @ ..] => bench::run(&root, names),
        ["layers"] => layers::run(&root),
        ["test"] => test::run(&root, test::Length::Mandatory),
        ["test", "--long"] => test::run(&root, test::Length::Long),
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
