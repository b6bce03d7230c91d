//! A program in Java that uses Redisson, if it was built.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::worker::Worker;

/// Where `cargo xtask test` builds it.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/mixed/redisson");

/// A JVM that locks `name` on a deployment (`one,PORT` for one server), with a watchdog that renews
/// by this ttl. If the program was not built, prints that and returns `None`.
pub fn redisson_peer(deployment: &str, name: &str, watchdog: Duration) -> Option<Worker> {
    // This file is written last: without it, the installation is not complete.
    if !Path::new(BUILT).join("installed").exists() {
        println!("skipped: the program in Java is not built: `cargo xtask test` does that");
        return None;
    }
    let mut command = Command::new("java");
    command.args(["-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
    command.arg("-cp").arg(format!("{BUILT}/classes:{BUILT}/lib/*")).arg("Peer");
    command.args([deployment, name, &watchdog.as_millis().to_string()]);
    let mut peer = Worker::of(command);
    peer.expect("ready");
    Some(peer)
}
