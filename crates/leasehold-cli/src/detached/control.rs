//! Requests of `give` and `renew` to a holder process, and its answers. Each is a line of JSON.
//!
//! Holder processes listen in a directory that only this user can use. The path of a socket depends
//! only on the id of the client that holds the lease. No other part of a handle is used, because a
//! handle may be forged.

use std::fs::{DirBuilder, remove_file, symlink_metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leasehold::admin::ClientId;
use rustix::process::geteuid;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// The longest line: 4 KiB, many times the length of any message.
const LONGEST_LINE: u64 = 4096;

/// How long a client may take to send its order: 5 s. A client sends it immediately, unless the
/// client was stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client waits for an answer: 15 s, longer than a release takes if the store does not
/// answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(15);

/// A request to a holder process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// The holder process releases the lease and ends.
    Give,
    /// The holder process holds the lease for this span, counted from now.
    Renew { for_span: Duration },
}

/// The answer of a holder process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    Done,
    /// The lease had ended before.
    Lost {
        why: String,
    },
}

/// The socket of a holder process. Dropping this value removes it.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
    path: PathBuf,
}

/// A request, and the connection for its answer.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) order: Request,
    stream: UnixStream,
}

impl Control {
    pub(super) fn listen(path: PathBuf) -> io::Result<Self> {
        Ok(Self { listener: UnixListener::bind(&path)?, path })
    }

    /// The next request. Dropping the future loses at most a request that is being read.
    pub(super) async fn next(&self) -> Asked {
        loop {
            // A failure concerns only this client.
            let Ok((mut stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            if !is_own(&stream) {
                continue;
            }
            if let Ok(Ok(order)) = timeout(PATIENCE, receive(&mut stream)).await {
                return Asked { order, stream };
            }
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _gone = remove_file(&self.path);
    }
}

impl Asked {
    /// Sends the answer, if the client still listens.
    pub(super) async fn answer(mut self, answer: &Answer) {
        let _unheard = timeout(PATIENCE, send(&mut self.stream, answer)).await;
    }
}

/// Sends a request to the holder process of a client. Returns `None` if this user has no such
/// process on this machine.
///
/// # Errors
///
/// If the process does not answer in time.
pub(crate) async fn ask(client: ClientId, order: Request) -> io::Result<Option<Answer>> {
    for socket in sockets_of(client) {
        if let Some(stream) = connect(&socket).await {
            return ask_by(stream, order).await.map(Some);
        }
    }
    Ok(None)
}

async fn ask_by(mut stream: UnixStream, order: Request) -> io::Result<Answer> {
    let conversation = async {
        send(&mut stream, &order).await?;
        receive(&mut stream).await
    };
    match timeout(ANSWER_PATIENCE, conversation).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer")),
    }
}

/// Connects to a socket of this user, in a directory that only this user can write to. So nobody
/// else can have made or replaced the socket.
async fn connect(socket: &Path) -> Option<UnixStream> {
    let found = symlink_metadata(socket).ok()?;
    if !found.file_type().is_socket() || found.uid() != geteuid().as_raw() {
        return None;
    }
    match UnixStream::connect(socket).await {
        Ok(stream) => is_own(&stream).then_some(stream),
        Err(error) => {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                // The holder process was killed, and could not remove its socket.
                let _gone = remove_file(socket);
            }
            None
        }
    }
}

/// Whether the other side is a process of this user.
fn is_own(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

async fn send(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(what)? + "\n";
    stream.write_all(line.as_bytes()).await
}

async fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

/// The rights of group and others. The directory must not grant any of them.
const OTHERS: u32 = 0o077;

/// The remedy if there is no such directory.
const REMEDY: &str = "set XDG_RUNTIME_DIR to a directory in which this user can write";

/// The path of the socket of a new holder process. Makes the directory if it is missing.
pub(super) fn socket_of(client: ClientId) -> io::Result<PathBuf> {
    Ok(own_directory()?.join(file_name(client)))
}

/// Makes the directory, unless it is there.
///
/// # Errors
///
/// If the directory cannot be made or used. The error names the remedy.
pub(super) fn own_directory() -> io::Result<PathBuf> {
    let directory = of_environment().unwrap_or_else(of_temporary_files);
    let shown = directory.display();
    let failed =
        |error: io::Error| io::Error::new(error.kind(), format!("{shown}: {error}: {REMEDY}"));
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    if !is_private(&directory) {
        let why = format!("{shown} is not a directory of this user alone: remove it, or {REMEDY}");
        return Err(io::Error::other(why));
    }
    Ok(directory)
}

/// The paths where a holder process of this user may listen. There are several because `give` may
/// run in another environment than `take` did, for example in cron.
fn sockets_of(client: ClientId) -> Vec<PathBuf> {
    let of_login = Path::new("/run/user").join(geteuid().as_raw().to_string()).join("leasehold");
    let places = of_environment().into_iter().chain([of_login, of_temporary_files()]);
    let own = places.filter(|directory| is_private(directory));
    own.map(|directory| directory.join(file_name(client))).collect()
}

fn of_environment() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty())?;
    Some(Path::new(&runtime).join("leasehold"))
}

fn of_temporary_files() -> PathBuf {
    std::env::temp_dir().join(format!("leasehold-{}", geteuid().as_raw()))
}

fn is_private(directory: &Path) -> bool {
    symlink_metadata(directory).is_ok_and(|found| {
        found.is_dir() && found.mode() & OTHERS == 0 && found.uid() == geteuid().as_raw()
    })
}

/// Half of the id distinguishes a client from all others. It leaves room in the path of a socket,
/// which may have 107 bytes.
fn file_name(client: ClientId) -> String {
    format!("{:016x}", (client.0 >> 64) as u64)
}

/// Only root can act as another user, so other users skip these tests.
#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::os::unix::net;
    use std::thread;

    use rustix::process::Uid;
    use rustix::thread::set_thread_uid;
    use tempfile::TempDir;

    use super::*;

    /// A user without rights.
    const NOBODY: u32 = 65_534;

    /// A long time: everything for which a test waits comes immediately.
    const LONG: Duration = Duration::from_secs(60);

    /// Runs something in a thread of another user.
    fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let strange = || {
            set_thread_uid(Uid::from_raw(NOBODY)).unwrap();
            work()
        };
        thread::scope(|scope| scope.spawn(strange).join().unwrap())
    }

    /// A directory that everybody can write to, and the path of a socket in it.
    fn place() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
        let socket = directory.path().join("socket");
        (directory, socket)
    }

    #[tokio::test]
    async fn an_order_of_another_user_is_not_followed() {
        if !geteuid().is_root() {
            return;
        }
        let (_directory, socket) = place();
        let control = Control::listen(socket.clone()).unwrap();
        set_permissions(&socket, Permissions::from_mode(0o777)).unwrap();
        let mut stranger = as_nobody(|| net::UnixStream::connect(&socket)).unwrap();
        stranger.write_all(b"\"give\"\n").unwrap();
        let own = ask_by(connect(&socket).await.unwrap(), Request::Renew { for_span: LONG });
        let served = async {
            let asked = control.next().await;
            let order = asked.order;
            asked.answer(&Answer::Done).await;
            order
        };
        let (order, answer) = tokio::join!(timeout(LONG, served), own);
        assert_eq!(order.unwrap(), Request::Renew { for_span: LONG }, "the stranger came first");
        assert_eq!(answer.unwrap(), Answer::Done);
        // Bytes that were not read turn the end of the connection into a reset.
        let mut heard = Vec::new();
        let _reset = stranger.read_to_end(&mut heard);
        assert_eq!(heard, b"");
    }

    #[tokio::test]
    async fn a_socket_at_which_another_user_listens_is_told_nothing() {
        if !geteuid().is_root() {
            return;
        }
        let (_directory, socket) = place();
        let stranger = as_nobody(|| net::UnixListener::bind(&socket)).unwrap();
        // As if another user had replaced one of our own sockets.
        chown(&socket, Some(0), Some(0)).unwrap();
        assert!(connect(&socket).await.is_none());
        let mut heard = Vec::new();
        stranger.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        assert_eq!(heard, b"");
        assert!(socket.exists(), "it is not ours to remove");
    }
}
