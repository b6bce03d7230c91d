//! A network between client and server that can be cut, or that loses what the server says.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Bytes passed on at once.
const BUFFER: usize = 16 * 1024;

/// A port that leads to a server. It runs on a thread of its own and ends with this value.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    mute: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy for a port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// The system's: no port, no thread.
    pub fn start(server_port: u16) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let (cuts, _) = watch::channel(0);
        let mute = Arc::new(AtomicBool::new(false));
        let accepting = accept(listener, server_port, Arc::clone(&mute), cuts.clone());
        runtime.spawn(accepting);
        Ok(Self { port, mute, cuts, runtime: Some(runtime) })
    }

    /// The store URL of the proxy's port.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Loses all that the server says from now on, or no longer. Requests still arrive.
    pub fn mute(&self, mute: bool) {
        self.mute.store(mute, Ordering::Relaxed);
    }

    /// Cuts all connections; new ones can be made.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    server_port: u16,
    mute: Arc<AtomicBool>,
    cuts: watch::Sender<u64>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (client, _) = listener.accept().await?;
        let (mute, mut cut) = (Arc::clone(&mute), cuts.subscribe());
        tokio::spawn(async move {
            tokio::select! {
                _ = pass_on(client, server_port, &mute) => {}
                _ = cut.changed() => {}
            }
        });
    }
}

/// Passes bytes on in both directions, until one of them ends.
async fn pass_on(mut client: TcpStream, server_port: u16, mute: &AtomicBool) -> io::Result<()> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port)).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answers = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from_server.read(&mut buffer).await? {
                0 => return Ok(()),
                _ if mute.load(Ordering::Relaxed) => {}
                length => to_client.write_all(&buffer[..length]).await?,
            }
        }
    };
    tokio::select! {
        requests = copy(&mut from_client, &mut to_server) => requests.map(drop),
        answers = answers => answers,
    }
}
