//! A network before a server: each message takes some time, however many there are.

use std::io;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::contender::Place;

/// A socket that leads to a server slowly, for as long as this value lives.
pub(super) struct Far {
    place: Place,
    _directory: TempDir,
    accepting: JoinHandle<io::Result<()>>,
}

impl Far {
    /// Starts a slow socket that leads to the server.
    pub(super) fn start(server: &Place, under_way: Duration) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = format!(".s.PGSQL.{}", server.port);
        let listener = UnixListener::bind(directory.path().join(&socket))?;
        let server_socket = format!("{}/{socket}", server.host);
        let place = Place { host: directory.path().display().to_string(), ..server.clone() };
        let accepting = tokio::spawn(async move {
            loop {
                let (here, _) = listener.accept().await?;
                let there = UnixStream::connect(&server_socket).await?;
                let ((from, to), (from_there, to_there)) = (here.into_split(), there.into_split());
                lead(from, to_there, under_way);
                lead(from_there, to, under_way);
            }
        });
        Ok(Self { place, _directory: directory, accepting })
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Passes on bytes with a delay. Either end may close the connection.
fn lead(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, under_way: Duration) {
    let (sender, mut receiver) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    tokio::spawn(async move {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            if sender.send((Instant::now() + under_way, bytes[..count].to_vec())).is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, bytes)) = receiver.recv().await {
            sleep_until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
}
