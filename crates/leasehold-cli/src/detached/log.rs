//! The log of a holder process, which has no terminal any more: it reports a lost lease there.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use crate::moment::{iso, now_ms};
use crate::report::{Failure, USAGE, Verbosity, escaped};

/// Where the machine's log daemon listens.
const SYSLOG: &str = "/dev/log";

/// The priority of its lines: facility daemon (3), severity error (3), as in syslog(3).
const DAEMON_ERROR: u8 = 3 << 3 | 3;

/// A place for one line.
#[derive(Debug)]
pub(super) enum Log {
    File(File),
    Syslog(UnixDatagram),
    /// There is no log, and a message has said so.
    Nowhere,
}

impl Log {
    /// Opens the file that the user named, or else the machine's log.
    pub(super) fn open(path: Option<&Path>, verbosity: Verbosity) -> Result<Self, Failure> {
        if let Some(path) = path {
            let file = File::options().append(true).create(true).open(path);
            return file.map(Self::File).map_err(|error| {
                Failure::new(USAGE, format!("--log {}: {error}", path.display()))
            });
        }
        let syslog = UnixDatagram::unbound().and_then(|socket| {
            socket.connect(SYSLOG)?;
            Ok(Self::Syslog(socket))
        });
        Ok(syslog.unwrap_or_else(|_| {
            verbosity.remark(format_args!(
                "a loss of this lease will not be reported, because nothing listens at {SYSLOG} \
                 here: give --log FILE"
            ));
            Self::Nowhere
        }))
    }

    /// Writes one line. A failure to write is no reason to end.
    pub(super) fn say(&mut self, what: &str) {
        let (what, pid) = (escaped(what), std::process::id());
        let _unsaid: io::Result<()> = match self {
            Self::File(file) => {
                file.write_all(format!("{} leasehold[{pid}]: {what}\n", iso(now_ms())).as_bytes())
            }
            Self::Syslog(socket) => socket
                .send(format!("<{DAEMON_ERROR}>leasehold[{pid}]: {what}").as_bytes())
                .map(drop),
            Self::Nowhere => Ok(()),
        };
    }
}
