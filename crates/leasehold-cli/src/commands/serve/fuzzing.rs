//! A target of fuzzing: the bytes on a connection to `serve`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold::Client;
use leasehold::time::FakeClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::App;
use super::access::Access;
use super::connections::answer;
use super::router::router;
use crate::watch::Timekeeper;

/// The room for a request and its answer: 1 MiB, more than any of them has.
const ROOM: usize = 1 << 20;

/// How long a connection may go on after its peer has sent all bytes: 5 s. No request of this
/// target waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// The store whose locks are served.
const URL: &str = "memory:";

static PLACE: LazyLock<(Runtime, Client)> = LazyLock::new(|| {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        panic!("there is no runtime");
    };
    let client = runtime.block_on(Client::connect(URL));
    let Ok(client) = client else { panic!("there is no client") };
    (runtime, client)
});

/// Answers the bytes that a peer sends before it closes its side.
pub(crate) fn request(bytes: &[u8]) {
    let (runtime, client) = &*PLACE;
    let answered = runtime.block_on(answers(client, bytes));
    let begin = answered.get(..13).unwrap_or_default();
    assert!(!begin.ends_with(b" 500"), "{}", String::from_utf8_lossy(&answered));
}

async fn answers(client: &Client, bytes: &[u8]) -> Vec<u8> {
    let (time, access) =
        (Timekeeper::new(FakeClock::new()), Access::with_token("0123456789abcdef"));
    let app = Arc::new(App::new(time, access, URL.into(), &[]));
    let _first = app.client.set(client.clone());
    let (mut here, there) = duplex(ROOM);
    let mut answered = Vec::new();
    let peer = async {
        // The other side may end the connection at any time.
        let _ = here.write_all(&bytes[..bytes.len().min(ROOM)]).await;
        let _ = here.shutdown().await;
        let _ = here.read_to_end(&mut answered).await;
    };
    let both = async { tokio::join!(answer(there, router(&app)), peer) };
    assert!(timeout(PATIENCE, both).await.is_ok(), "a connection does not end");
    answered
}
