//! A server's own wall clock, which a test sets: Debian's `faketime`, told by a file.
//!
//! Only the wall clock is faked, as a clock that is set or that runs badly is: what the server
//! measures spans by goes on as it was.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::path::{Path, PathBuf};

use crate::program;
use crate::server::RedisServer;

/// The file that says how the clock differs from the machine's.
const FILE: &str = "clock";

/// Where Debian's packages of each kind of machine have their libraries.
const LIBRARIES: &str = "/usr/lib";

/// Below that of this kind of machine.
const FAKETIME: &str = "faketime/libfaketimeMT.so.1";

impl RedisServer {
    /// Sets the wall clock of a server that has [its own](crate::RedisOptions::own_clock): so many
    /// seconds ahead of the machine's, or behind it, and running at `rate` from now on.
    ///
    /// A rate other than 1 counts from the start of the process, which is known to some 10 ms.
    ///
    /// # Errors
    ///
    /// The system's. A server without its own clock does not notice.
    pub fn set_clock(&self, ahead_s: f64, rate: f64) -> io::Result<()> {
        let so_far_s = self.started().elapsed().as_secs_f64();
        write(self.directory(), ahead_s + so_far_s * (1.0 - rate), rate)
    }
}

/// The program that starts a server with its own clock, and what comes before the server's own
/// arguments.
///
/// It is the machine's own server, whichever the tests are told to start: jemalloc asks for the
/// time while it starts, faketime asks for memory when it is first asked for the time, and so
/// neither would ever be ready. With the allocator of libc they are; newer servers give memory back
/// by calls that only jemalloc has, so they cannot do without it.
pub(crate) fn command(directory: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    if !directory.join(FILE).exists() {
        write(directory, 0.0, 1.0)?;
    }
    let arguments = vec![
        format!("LD_PRELOAD={}:libc.so.6", library()?.display()).into(),
        format!("FAKETIME_TIMESTAMP_FILE={}", directory.join(FILE).display()).into(),
        "FAKETIME_NO_CACHE=1".into(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
        program::installed()?.into(),
    ];
    Ok(("env".into(), arguments))
}

/// Replaces the file as a whole: the server reads it whenever it asks for the time.
fn write(directory: &Path, ahead_s: f64, rate: f64) -> io::Result<()> {
    let draft = directory.join("clock.new");
    fs::write(&draft, format!("{ahead_s:+.6} x{rate:.6}\n"))?;
    fs::rename(draft, directory.join(FILE))
}

fn library() -> io::Result<PathBuf> {
    let machines = fs::read_dir(LIBRARIES).into_iter().flatten();
    let mut files = machines.filter_map(|entry| Some(entry.ok()?.path().join(FAKETIME)));
    files.find(|file| file.is_file()).ok_or_else(|| {
        let why = "faketime is missing: install it (`apt-get install faketime`)";
        Error::new(ErrorKind::NotFound, why)
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use super::*;
    use crate::server::Data;

    /// How far the server's clock is ahead of the machine's, within the time that asking takes.
    fn ahead_s(server: &RedisServer) -> f64 {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let (seconds, micros): (f64, f64) = server.command("TIME").unwrap();
        seconds + micros / 1e6 - now()
    }

    #[test]
    fn a_clock_is_set_forward_and_back_and_stays_so_over_a_restart() {
        let mut server = RedisServer::options().own_clock().start().unwrap();
        assert!(ahead_s(&server).abs() < 5.0);
        server.set_clock(3600.0, 1.0).unwrap();
        assert!((ahead_s(&server) - 3600.0).abs() < 5.0);
        server.restart(Data::Dropped).unwrap();
        assert!((ahead_s(&server) - 3600.0).abs() < 5.0);
        server.set_clock(-3600.0, 1.0).unwrap();
        assert!((ahead_s(&server) + 3600.0).abs() < 5.0);
    }

    #[test]
    fn a_clock_runs_at_another_rate_from_now_on() {
        let server = RedisServer::options().own_clock().start().unwrap();
        let since = Instant::now();
        server.set_clock(0.0, 100.0).unwrap();
        while ahead_s(&server) < 20.0 {
            assert!(since.elapsed() < Duration::from_secs(60), "it never runs faster");
        }
        server.set_clock(0.0, 1.0).unwrap();
        assert!(ahead_s(&server) < 5.0);
    }
}
