//! Accepts connections, by TLS if a certificate was given, and limits their number and their time.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::args::Serve;
use crate::report::Failure;

/// The most connections at the same time: 512. A later one waits.
const MOST: usize = 512;

/// The most connections from one address: 192, so that one peer leaves room for others. Further
/// connections from that address are refused.
const MOST_OF_ONE: usize = 192;

/// The longest time for a handshake, for the head of a request, and for a pause between requests:
/// 10 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest head of a request: 16 KiB.
const MOST_BYTES: usize = 16 * 1024;

/// How long a peer may leave sent data unread: 30 s.
const UNREAD_MS: u32 = 30_000;

/// The pause after a connection could not be accepted, for example because of too many open files.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections and answers their requests.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
) -> Infallible {
    let (room, peers) = (Arc::new(Semaphore::new(MOST)), Arc::<Peers>::default());
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { continue };
        let Ok((stream, peer)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let Some(visit) = Visit::begin(&peers, peer.ip()) else { continue };
        let (tls, router) = (tls.clone(), router.clone());
        tokio::spawn(async move {
            bound(&stream);
            match tls {
                None => answer(stream, router).await,
                Some(tls) => {
                    if let Ok(Ok(stream)) = timeout(PATIENCE, tls.accept(stream)).await {
                        answer(stream, router).await;
                    }
                }
            }
            drop((place, visit));
        });
    }
}

/// How many connections there are from each peer.
type Peers = Mutex<HashMap<IpAddr, usize>>;

/// One connection of a peer, counted as long as it lasts.
struct Visit {
    peers: Arc<Peers>,
    peer: IpAddr,
}

impl Visit {
    /// Counts a new connection of a peer. Returns `None` if the peer has the most already.
    fn begin(peers: &Arc<Peers>, address: IpAddr) -> Option<Self> {
        let peer = network(address);
        let mut counts = peers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= MOST_OF_ONE {
            return None;
        }
        *count += 1;
        Some(Self { peers: Arc::clone(peers), peer })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut counts = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(&self.peer) else { return };
        *count -= 1;
        if *count == 0 {
            counts.remove(&self.peer);
        }
    }
}

/// The peer to which an address belongs: with IPv6, all addresses of a /64 network are one peer.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

/// Makes the kernel end the connection of a peer that does not read. If the kernel cannot do that,
/// such a peer keeps its connection.
fn bound(stream: &TcpStream) {
    let _as_it_is = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _as_it_is = rustix::net::sockopt::set_tcp_user_timeout(stream, UNREAD_MS);
}

/// Answers the requests of one connection, until it ends.
pub(super) async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_BYTES);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // An error of the connection concerns only the peer.
    let _ended = pin!(served).await;
}

/// The acceptor of TLS connections, if a certificate was given.
///
/// # Errors
///
/// If the files cannot be read, or do not match each other.
pub(super) fn acceptor(args: &Serve) -> Result<Option<TlsAcceptor>, Failure> {
    let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else { return Ok(None) };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| wrong("--tls-cert", certificate, error))?;
    let private = PrivateKeyDer::from_pem_file(key);
    let private = private.map_err(|error| wrong("--tls-key", key, error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, private));
    let mut config = config.map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        Failure::usage(format!("--tls-cert {certificate} --tls-key {key}: {error}"))
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

fn wrong(option: &str, path: &Path, error: pem::Error) -> Failure {
    Failure::usage(format!("{option} {}: {error}: give a file in PEM format", path.display()))
}
