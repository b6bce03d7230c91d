//! Connections: not too many, and none that takes its time.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
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

/// Most at the same time: 512, of which half may listen to events. Who comes later waits.
const MOST: usize = 512;

/// How long a handshake may take, the head of a request, and a pause between requests: 10 s.
const PATIENCE: Duration = Duration::from_secs(10);

/// Largest head of a request: 16 KiB.
const MOST_BYTES: usize = 16 * 1024;

/// How long a peer may not take what it is sent: 30 s.
const UNREAD_MS: u32 = 30_000;

/// The pause after a connection that could not be accepted, as when there are too many files.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections and answers what comes by them.
pub(super) async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
) -> Infallible {
    let room = Arc::new(Semaphore::new(MOST));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { continue };
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
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
            drop(place);
        });
    }
}

/// Has the kernel end the connection of a peer that does not read. Where that is not possible, it
/// costs a place.
fn bound(stream: &TcpStream) {
    let _as_it_is = stream.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _as_it_is = rustix::net::sockopt::set_tcp_user_timeout(stream, UNREAD_MS);
}

/// Answers what comes by one connection, until it ends.
pub(super) async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(MOST_BYTES);
    let served = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // Whatever is wrong with it is the peer's affair.
    let _ended = pin!(served).await;
}
