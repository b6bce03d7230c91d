//! What comes over a connection to `serve`, as a target of fuzzing.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold::Client;
use leasehold::time::FakeClock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::access::Access;
use super::app::App;
use super::connections::answer;
use super::router::router;
use crate::watch::{Timekeeper, Watcher};

/// More than any request and any answer has: 1 MiB.
const ROOM: usize = 1 << 20;

/// How long a connection may go on after its peer has sent all: 5 s, where none waits for anything.
const PATIENCE: Duration = Duration::from_secs(5);

/// The locks that are served.
const URL: &str = "memory:";

static PLACE: LazyLock<(Runtime, Client)> = LazyLock::new(|| {
    let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
        panic!("there is no runtime");
    };
    let client = runtime.block_on(Client::connect(URL));
    let Ok(client) = client else { panic!("there is no client") };
    (runtime, client)
});

/// Answers whatever a peer sends before it sends no more.
pub(crate) fn request(bytes: &[u8]) {
    let (runtime, client) = &*PLACE;
    let answered = runtime.block_on(answers(client, bytes));
    let begin = answered.get(..13).unwrap_or_default();
    assert!(!begin.ends_with(b" 500"), "{}", String::from_utf8_lossy(&answered));
}

async fn answers(client: &Client, bytes: &[u8]) -> Vec<u8> {
    let watcher = Watcher::new(2000, Timekeeper::new(FakeClock::new()));
    let app = Arc::new(App::new(watcher, Access::with_token("0123456789abcdef"), URL.into(), &[]));
    let _first = app.client.set(client.clone());
    let (mut here, there) = duplex(ROOM);
    let mut answered = Vec::new();
    let peer = async {
        // The other side ends it when it likes.
        let _ = here.write_all(&bytes[..bytes.len().min(ROOM)]).await;
        let _ = here.shutdown().await;
        let _ = here.read_to_end(&mut answered).await;
    };
    let both = async { tokio::join!(answer(there, router(&app)), peer) };
    assert!(timeout(PATIENCE, both).await.is_ok(), "a connection does not end");
    answered
}
