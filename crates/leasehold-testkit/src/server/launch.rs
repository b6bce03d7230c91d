//! Starts the program of a server, and waits until it answers.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

use super::options::RedisOptions;
use crate::certificates::Certificates;
use crate::{child, clock, program};

/// How long a server may take to answer its first PING: generous, for a busy machine.
pub(super) const START_LIMIT: Duration = Duration::from_secs(60);

/// The file name of the unix socket by which a test inspects its server.
pub(super) const SOCKET: &str = "redis.sock";

/// The file name of a server's configuration. Sentinels and failovers rewrite it, and a restarted
/// server uses what they have written.
const CONFIGURATION: &str = "redis.conf";

/// A port that nobody used a moment ago.
pub(crate) fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A connection by the unix socket, as the `default` user.
pub(super) fn connect(socket: &Path, password: Option<&str>) -> RedisResult<Connection> {
    let mut connection =
        redis::Client::open(format!("unix://{}", socket.display()))?.get_connection()?;
    if let Some(password) = password {
        redis::cmd("AUTH").arg(password).exec(&mut connection)?;
    }
    Ok(connection)
}

/// Writes the configuration of a server that will use this port.
pub(super) fn configure(
    options: &RedisOptions,
    directory: &Path,
    port: u16,
    certificates: Option<&Certificates>,
) -> io::Result<()> {
    let home = directory.display();
    let mut text = format!(
        "bind 127.0.0.1\nunixsocket {home}/{SOCKET}\ndir {home}\nlogfile {home}/log\n\
         daemonize no\nsave \"\"\nenable-debug-command local\n"
    );
    // Writing to a String cannot fail.
    let _ = match certificates {
        None => writeln!(text, "port {port}"),
        Some(files) => writeln!(
            text,
            "port 0\ntls-port {port}\ntls-cert-file {}\ntls-key-file {}\ntls-ca-cert-file {}",
            files.server.display(),
            files.server_key.display(),
            files.authority.display(),
        ),
    };
    for line in &options.lines {
        let _ = writeln!(text, "{line}");
    }
    fs::write(directory.join(CONFIGURATION), text)
}

/// Starts the program with the configuration in its directory, and waits until it answers.
pub(super) fn launch(options: &RedisOptions, directory: &Path) -> io::Result<Child> {
    let log = directory.join("log");
    fs::write(&log, "")?;
    let (program, mut arguments) = match options.own_clock {
        true => clock::command(directory)?,
        false => (program::server()?, Vec::new()),
    };
    arguments.push(directory.join(CONFIGURATION).into());
    if options.sentinel {
        arguments.push("--sentinel".into());
    }
    let mut process = child::spawn(program, arguments)?;
    let since = Instant::now();
    let socket = directory.join(SOCKET);
    loop {
        let answer = connect(&socket, options.password.as_deref())
            .and_then(|mut connection| redis::cmd("PING").exec(&mut connection));
        match answer {
            Ok(()) => return Ok(process),
            Err(error) => {
                if process.try_wait()?.is_none() && since.elapsed() < START_LIMIT {
                    thread::sleep(Duration::from_millis(5));
                    continue;
                }
                child::kill(&mut process)?;
                let log = fs::read_to_string(&log)?;
                let in_use = log.contains("Address already in use");
                let kind = if in_use { ErrorKind::AddrInUse } else { ErrorKind::Other };
                return Err(Error::new(kind, format!("the server did not start: {error}\n{log}")));
            }
        }
    }
}

/// Deletes everything a server would load.
pub(super) fn remove_data(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.ends_with("appendonlydir") {
            fs::remove_dir_all(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rdb") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
