//! The peers, and the preparations of their programs.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::outcome::Outcome;
use crate::peers::ours;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Language {
    Rust,
    Python,
    Node,
    Go,
    Java,
}

/// A lock that is measured.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    /// The name of the lock in its program.
    lock: &'static str,
    pub(super) version: &'static str,
    language: Language,
    pub(super) fifo: bool,
    pub(super) tokens: bool,
    pub(super) renewal: bool,
    pub(super) loss_signal: bool,
    /// Whether the lock cannot wait, so that a hot name is left out.
    pub(super) only_alone: bool,
}

impl Peer {
    const fn new(
        name: &'static str,
        lock: &'static str,
        version: &'static str,
        language: Language,
    ) -> Self {
        Self {
            name,
            lock,
            version,
            language,
            fifo: false,
            tokens: false,
            renewal: false,
            loss_signal: false,
            only_alone: false,
        }
    }

    const fn ours(name: &'static str, lock: &'static str) -> Self {
        Self {
            fifo: true,
            tokens: true,
            renewal: true,
            loss_signal: true,
            ..Self::new(name, lock, "0.1.0", Language::Rust)
        }
    }

    const fn redisson(lock: &'static str) -> Self {
        Self { renewal: true, ..Self::new(lock, lock, "Redisson 4.7.0", Language::Java) }
    }
}

pub(super) const PEERS: [Peer; 13] = [
    Peer::ours("leasehold", "leasehold"),
    Peer { only_alone: true, ..Peer::ours("leasehold, guard dropped", "leasehold-dropped") },
    Peer {
        only_alone: true,
        ..Peer::new("raw SET NX + compare-and-delete", "raw", "redis 1", Language::Rust)
    },
    Peer::new("rslock", "rslock", "0.10.0", Language::Rust),
    Peer {
        renewal: true,
        loss_signal: true,
        ..Peer::new("rueidislock", "rueidislock", "1.0.79", Language::Go)
    },
    Peer::new("redsync", "redsync", "4.18.1", Language::Go),
    Peer::new("bsm/redislock", "redislock", "0.9.4", Language::Go),
    Peer::redisson("RLock"),
    Peer { fifo: true, ..Peer::redisson("RFairLock") },
    Peer { tokens: true, ..Peer::redisson("RFencedLock") },
    Peer::new("node-redlock", "node-redlock", "5.0.0-beta.2", Language::Node),
    Peer::new("redis-py Lock", "redis-py", "8.1.0", Language::Python),
    Peer::new("python-redis-lock", "python-redis-lock", "4.0.1", Language::Python),
];

/// How to start the programs of each language, or why they are left out.
#[derive(Debug)]
pub(super) struct Programs(BTreeMap<Language, Result<Vec<String>, String>>);

impl Programs {
    /// Builds the missing programs in the directory for builds.
    pub(super) fn build(sources: &Path) -> Outcome<Self> {
        let own = env::current_exe()?;
        let target = own.ancestors().nth(2).ok_or("no target directory")?.join("peers");
        std::fs::create_dir_all(&target)?;
        let ours = vec![text(&own), ours::PEER.to_owned()];
        Ok(Self(BTreeMap::from([
            (Language::Rust, Ok(ours)),
            (Language::Python, python(&sources.join("python"), &target.join("python"))),
            (Language::Node, node(&sources.join("node"), &target.join("node"))),
            (Language::Go, go(&sources.join("go"), &target.join("go-peer"))),
            (Language::Java, java(&sources.join("java"), &target.join("java"))),
        ])))
    }

    /// Why a peer is left out, if it is.
    pub(super) fn missing(&self, peer: &Peer) -> Option<&str> {
        self.0.get(&peer.language)?.as_ref().err().map(String::as_str)
    }

    /// The program of a peer; the caller adds the rest of its arguments.
    pub(super) fn command(&self, peer: &Peer) -> Outcome<Command> {
        let words = self.0.get(&peer.language).and_then(|words| words.as_ref().ok());
        let (program, arguments) =
            words.and_then(|words| words.split_first()).ok_or("no such program")?;
        let mut command = Command::new(program);
        command.args(arguments).arg(peer.lock);
        Ok(command)
    }
}

fn python(sources: &Path, target: &Path) -> Result<Vec<String>, String> {
    done(Command::new("python3").arg("-m").arg("venv").arg(target))?;
    let requirements = sources.join("requirements.txt");
    done(Command::new(target.join("bin/pip")).args(["install", "-q", "-r"]).arg(requirements))?;
    Ok(vec![text(&target.join("bin/python")), text(&sources.join("peer.py"))])
}

fn node(sources: &Path, target: &Path) -> Result<Vec<String>, String> {
    std::fs::create_dir_all(target).map_err(|error| error.to_string())?;
    for file in ["package.json", "package-lock.json", "peer.js"] {
        let copied = std::fs::copy(sources.join(file), target.join(file));
        copied.map_err(|error| format!("{file}: {error}"))?;
    }
    done(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(target))?;
    Ok(vec!["node".to_owned(), text(&target.join("peer.js"))])
}

fn go(sources: &Path, target: &Path) -> Result<Vec<String>, String> {
    let mut build = Command::new("go");
    done(build.args(["build", "-mod=mod", "-o"]).arg(target).arg(".").current_dir(sources))?;
    Ok(vec![text(target)])
}

fn java(sources: &Path, target: &Path) -> Result<Vec<String>, String> {
    let mut build = Command::new("mvn");
    build.args(["-q", "-B", "compile", "dependency:copy-dependencies"]);
    build.arg(format!("-DbuildDirectory={}", text(target)));
    build.arg(format!("-DoutputDirectory={}", text(&target.join("lib"))));
    done(build.current_dir(sources))?;
    let path = format!("{}:{}/*", text(&target.join("classes")), text(&target.join("lib")));
    Ok(["java", "-cp", &path, "peers.Peer"].map(str::to_owned).to_vec())
}

/// Runs a step of a build. An error is one line.
fn done(command: &mut Command) -> Result<(), String> {
    let program = PathBuf::from(command.get_program());
    let program = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{program}: {}", said.lines().last().unwrap_or("failed")))
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
