//! Sockets to servers, and how the kernel watches over them.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::select_ok;
use leasehold_core::{StoreError, StoreErrorKind};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};

use super::options::Server;

/// The kernel's keepalive for an idle connection: after 15 s of silence, and then every 5 s; it
/// gives up after 3 failures. So a connection that died while it was idle is noticed before a
/// renewal needs it.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

/// A socket, with TLS or without.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Connects to a server: to a socket of this machine, at `path`; or to a host, and then to all its
/// addresses together, because an address that swallows packets must not hide another.
#[cfg_attr(not(unix), expect(unused_variables, reason = "there are no such sockets"))]
pub(crate) async fn connect(server: &Server, path: &str) -> io::Result<Box<dyn Stream>> {
    if server.is_socket() {
        #[cfg(not(unix))]
        return Err(io::ErrorKind::Unsupported.into());
        #[cfg(unix)]
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    let addresses: Vec<SocketAddr> = lookup_host((&*server.host, server.port)).await?.collect();
    if addresses.is_empty() {
        return Err(io::Error::other("the host has no address"));
    }
    let attempts = addresses.into_iter().map(|address| Box::pin(TcpStream::connect(address)));
    let (stream, _others) = select_ok(attempts).await?;
    stream.set_nodelay(true)?;
    keep_alive(&stream)?;
    Ok(Box::new(stream))
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let uncounted = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    let counted = uncounted.clone().with_retries(KEEPALIVE_COUNT);
    match socket.set_tcp_keepalive(&counted) {
        // Windows before 10 version 1703, and wine 8, always use ten probes and accept no other
        // number.
        Err(_) if cfg!(windows) => socket.set_tcp_keepalive(&uncounted),
        set => set,
    }
}

/// The error for a host or a socket that could not be reached.
pub(crate) fn unreachable(server: &str, error: io::Error) -> StoreError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => StoreErrorKind::Denied,
        // Somebody must raise the limit, so a waiter gets this error instead of waiting in silence.
        _ if is_out_of_descriptors(&error) => StoreErrorKind::Full,
        _ => StoreErrorKind::Unreachable,
    };
    let words = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there: is the server running, is the port right?"
        }
        io::ErrorKind::NotFound => "no such socket: is the server running?",
        io::ErrorKind::PermissionDenied => "this user may not open the socket",
        _ if kind == StoreErrorKind::Full => &format!("{error}: raise the limit (ulimit -n)"),
        _ => &error.to_string(),
    };
    StoreError::new(kind, format!("{server}: {words}")).with_source(error)
}

/// The error for a login without a password.
pub(crate) fn no_password(server: &str, error: Box<dyn Error + Send + Sync>) -> StoreError {
    // The error's text is not shown: it comes from the program, and may contain a secret.
    let why = format!("{server}: there is no password to log in with: its source has failed");
    StoreError::new(StoreErrorKind::Unreachable, why).with_source(io::Error::other(error))
}

/// Whether the limit of open files, of this process or of the machine, is reached.
fn is_out_of_descriptors(error: &io::Error) -> bool {
    #[cfg(unix)]
    let codes =
        [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE].map(rustix::io::Errno::raw_os_error);
    #[cfg(not(unix))]
    let codes = [10_024]; // WSAEMFILE
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
