//! Members of a fleet that are not this library in Rust: the command, Python, and Redisson if the
//! layout is its own. They update the same values under the same locks, and are judged in the same
//! way.

mod command;
mod halt;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use leasehold_core::LOCK_CAPACITY;
use leasehold_testkit::{Worker, java, must};

use crate::plan::REGISTERS;
use crate::topology::Topology;

pub(crate) use self::command::work;

/// Where `cargo xtask python` installs the package, a folder for each version of Python.
const PYTHONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/python");

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/fleet.py");

/// Tasks of each member, fewer where a task starts processes.
const TASKS: usize = 6;
const TASKS_OF_COMMAND: usize = 2;

/// A program that shares the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// `leasehold run`, `take` and `give`.
    Command,
    Python,
    Redisson,
}

impl Peer {
    /// The programs that share the names of a topology and are installed; prints the missing ones.
    pub(crate) fn of(topology: Topology) -> Vec<Self> {
        let all: &[Self] = match topology {
            Topology::File | Topology::Server => &[Self::Command, Self::Python],
            Topology::Redisson => &[Self::Command, Self::Python, Self::Redisson],
            _ => &[],
        };
        let is_there = |peer: &Self| {
            let found = match peer {
                Self::Command => leasehold().is_file(),
                Self::Python | Self::Redisson => peer.program().is_some(),
            };
            if !found {
                println!("left out of the fleet: {peer:?}, which {}", peer.remedy());
            }
            found
        };
        all.iter().copied().filter(is_there).collect()
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Command => "`cargo build --workspace` builds",
            Self::Python => "`cargo xtask python` installs",
            Self::Redisson => "`cargo xtask test` installs",
        }
    }

    /// The program of a member that is not in Rust, if it is installed.
    fn program(self) -> Option<Command> {
        match self {
            Self::Command => None,
            Self::Python => {
                let mut command = Command::new(python()?);
                command.arg(PROGRAM);
                Some(command)
            }
            // Redisson's locks with tokens, which are those of our mutexes.
            Self::Redisson => java("redisson", "Fleet"),
        }
    }

    pub(crate) fn start(self, url: &str, call: &Call<'_>) -> Worker {
        let tasks = if self == Self::Command { TASKS_OF_COMMAND } else { TASKS };
        let words = call.words(url, tasks);
        match self.program() {
            Some(mut program) => {
                program.args(words);
                Worker::of(program)
            }
            None => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                Worker::start(&[&["command"], &words[..]].concat())
            }
        }
    }
}

/// What a member is told.
pub(crate) struct Call<'a> {
    /// The port of the protected values.
    pub(crate) protected: u16,
    pub(crate) directory: &'a Path,
    pub(crate) number: u64,
    pub(crate) seed: u64,
    pub(crate) ttl: Duration,
}

impl Call<'_> {
    fn words(&self, url: &str, tasks: usize) -> Vec<String> {
        vec![
            url.to_owned(),
            self.protected.to_string(),
            self.directory.join(format!("{}.log", self.number)).display().to_string(),
            self.number.to_string(),
            // Not every language has wide numbers.
            (self.seed >> 16).to_string(),
            tasks.to_string(),
            self.ttl.as_millis().to_string(),
            REGISTERS.to_string(),
            LOCK_CAPACITY.to_string(),
        ]
    }
}

/// The command, where Cargo has put it: beside the folder of this program.
fn leasehold() -> PathBuf {
    let own = must(env::current_exe());
    let folder = own.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    folder.join("leasehold")
}

fn python() -> Option<PathBuf> {
    let versions = fs::read_dir(PYTHONS).into_iter().flatten();
    let mut pythons = versions.filter_map(|version| Some(version.ok()?.path().join("bin/python")));
    pythons.find(|python| {
        let imported = Command::new(python).args(["-c", "import leasehold"]).output();
        imported.is_ok_and(|imported| imported.status.success())
    })
}
