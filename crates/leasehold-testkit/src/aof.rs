//! Power loss: the end of a server's append-only file never reached the disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::resp;
use crate::server::{Data, RedisServer};

/// The directory of append-only files since Redis 7.0, with a list of these files.
const DIRECTORY: &str = "appendonlydir";
const MANIFEST: &str = "appendonly.aof.manifest";

/// How long a machine is away after a power loss: 250 ms; real machines take longer. Order numbers
/// may be ahead of their floor by 200 ms.
const BOOT: Duration = Duration::from_millis(250);

impl RedisServer {
    /// Ends the server as a power loss does, and starts it again on the same port. This many
    /// transactions never reached the disk: a script's writes are one, and so is a single command.
    ///
    /// With `appendfsync` `always` or `no`, the file ends with the last acknowledged write. With
    /// `everysec`, a server holds writes back while it waits for the disk.
    pub fn lose_power(&mut self, transactions: usize) -> io::Result<()> {
        self.kill9()?;
        let file = newest(self.directory())?;
        let ends = transaction_ends(&fs::read(&file)?)?;
        let kept = ends.len().checked_sub(transactions + 1).map(|last| ends[last] as u64);
        let kept = kept.ok_or_else(|| Error::other(format!("it holds no {transactions}")))?;
        OpenOptions::new().write(true).open(file)?.set_len(kept)?;
        thread::sleep(BOOT);
        self.restart(Data::Kept)
    }
}

/// The file that was written to last.
fn newest(directory: &Path) -> io::Result<PathBuf> {
    let folder = directory.join(DIRECTORY);
    let manifest = fs::read_to_string(folder.join(MANIFEST))?;
    // One line for each file, the oldest first: `file NAME seq NUMBER type i`, i for increments,
    // and more from Redis 8.0 on.
    let increments = manifest.lines().filter(|line| line.contains(" type i"));
    let name = increments.filter_map(|line| line.split(' ').nth(1)).next_back();
    name.map(|name| folder.join(name)).ok_or_else(|| Error::other("no append-only file"))
}

/// The offset at which each transaction ends; the first offset is before all transactions.
fn transaction_ends(bytes: &[u8]) -> io::Result<Vec<usize>> {
    let (mut ends, mut at, mut is_open) = (vec![0], 0, false);
    while let Some(length) = resp::length(&bytes[at..])? {
        let command = resp::word(&bytes[at..at + length], 0).unwrap_or_default();
        at += length;
        if command.eq_ignore_ascii_case(b"MULTI") {
            is_open = true;
        } else if command.eq_ignore_ascii_case(b"EXEC") {
            is_open = false;
        }
        // Choosing the database is no separate change.
        if !is_open && !command.eq_ignore_ascii_case(b"SELECT") {
            ends.push(at);
        }
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has written `a`, then `b` and `c` in one transaction.
    fn server() -> RedisServer {
        let server = RedisServer::options().append_only("no").start().unwrap();
        server.command::<()>("SET a 1").unwrap();
        let mut both = redis::pipe();
        both.atomic().set("b", 1).set("c", 1);
        both.exec(&mut server.connection().unwrap()).unwrap();
        server
    }

    fn kept(server: &RedisServer) -> Vec<String> {
        let mut keys: Vec<String> = server.command("KEYS *").unwrap();
        keys.sort();
        keys
    }

    #[test]
    fn a_power_loss_takes_transactions_as_a_whole() {
        let mut server = server();
        server.lose_power(0).unwrap();
        assert_eq!(kept(&server), ["a", "b", "c"]);
        server.lose_power(1).unwrap();
        assert_eq!(kept(&server), ["a"]);
        server.lose_power(1).unwrap();
        assert_eq!(kept(&server), [""; 0]);
        assert!(server.lose_power(1).is_err(), "there is no more to lose");
    }
}
