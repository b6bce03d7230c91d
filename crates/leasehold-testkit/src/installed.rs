//! Programs in other languages, if `cargo xtask test` has installed them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::worker::Worker;

/// Where the programs in this language are. If they are not installed, prints that and returns
/// `None`.
pub fn installed(language: &str) -> Option<PathBuf> {
    let place =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mixed")).join(language);
    // This file is written last: without it, the installation is not complete.
    if place.join("installed").exists() {
        return Some(place);
    }
    println!("skipped: {language} is not installed: `cargo xtask test` does that");
    None
}

/// A JVM with a program of these: of `redisson`, or of the other libraries in `java`.
pub fn java(project: &str, program: &str) -> Option<Command> {
    let place = installed(project)?.display().to_string();
    let mut command = Command::new("java");
    command.args(["-Xmx96m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    command.args(["-cp", &format!("{place}/classes:{place}/lib/*"), program]);
    Some(command)
}

/// A JVM that locks `name` by Redisson on a deployment (`one,PORT` for one server), with a watchdog
/// that renews by this ttl.
pub fn redisson_peer(deployment: &str, name: &str, watchdog: Duration) -> Option<Worker> {
    let mut command = java("redisson", "Peer")?;
    command.args([deployment, name, &watchdog.as_millis().to_string()]);
    let mut peer = Worker::of(command);
    peer.expect("ready");
    Some(peer)
}
