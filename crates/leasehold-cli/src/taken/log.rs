//! Where a holder process says that its lease was lost: it has no terminal any more.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::report::{Failure, USAGE, Voice, escaped};

/// Where the machine's log daemon listens.
const SYSLOG: &str = "/dev/log";

/// Priority of a line there: facility daemon (3), severity error (3), as in syslog(3).
const DAEMON_ERROR: u8 = 3 << 3 | 3;

/// A place for one line.
#[derive(Debug)]
pub(super) enum Log {
    File(File),
    Syslog(UnixDatagram),
    /// There is none, and the user was told so.
    Nowhere,
}

impl Log {
    /// The file that was asked for, else the machine's log.
    pub(super) fn open(path: Option<&Path>, voice: Voice) -> Result<Self, Failure> {
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
            voice.remark(format_args!(
                "a loss of this lease will be told nowhere, because nobody listens at {SYSLOG} \
                 here: give --log FILE"
            ));
            Self::Nowhere
        }))
    }

    /// Says one line. What cannot be said is not worth an end.
    pub(super) fn say(&mut self, what: &str) {
        let (what, pid) = (escaped(what), std::process::id());
        let _unsaid: io::Result<()> = match self {
            Self::File(file) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                file.write_all(format!("{} leasehold[{pid}]: {what}\n", utc(now)).as_bytes())
            }
            Self::Syslog(socket) => socket
                .send(format!("<{DAEMON_ERROR}>leasehold[{pid}]: {what}").as_bytes())
                .map(drop),
            Self::Nowhere => Ok(()),
        };
    }
}

/// A time since 1970 as RFC 3339 has it. Years are counted from March, so that the day that may be
/// missing is the last of one.
fn utc(since_1970: Duration) -> String {
    let (days, second) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    let days = days + 719_468; // since the 1st of March of the year 0
    let (era, day) = (days / 146_097, days % 146_097); // 400 years
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day + 2) / 153;
    let (day, month, next) = match month {
        0..=9 => (day - (153 * month + 2) / 5 + 1, month + 3, 0),
        _ => (day - (153 * month + 2) / 5 + 1, month - 9, 1),
    };
    let year = era * 400 + year_of_era + next;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_date_has_them() {
        // By `date -u -d @N +%FT%TZ`.
        for (seconds, written) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(Duration::from_secs(seconds)), written);
        }
    }
}
