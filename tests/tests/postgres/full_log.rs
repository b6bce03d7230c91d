//! A disk that is full below the server's log: the server stops, and comes back when there is room.

use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error};
use leasehold_testkit::small_disk::{fill, on_a_disk_of};
use leasehold_testkit::{must, worker};

use crate::faults::{assert_still_held, held, is_taken, server};

/// A lease that ends while the server is away.
const SHORT: &str = "short";

/// Works on a server whose data are all on the small disk.
pub(crate) fn job(directory: &str) {
    worker::end_with_parent();
    let work = work(Path::new(directory));
    must(tokio::runtime::Builder::new_current_thread().enable_all().build()).block_on(work);
}

async fn work(directory: &Path) {
    let Some(mut server) = server() else { return };
    let url = server.url().replace("timeout=20s", "timeout=2s");
    let client = Client::connect(&url).await.unwrap();
    let other = Client::connect(&url).await.unwrap();
    let guard = held(&client).await;
    let short = client.mutex(SHORT).ttl(Duration::from_secs(2)).acquire().await.unwrap();
    let first = short.token();

    let filler = directory.join("filler");
    fill(&filler);
    let mut more = Vec::new();
    let refused = loop {
        // The next writes need a new file of the log.
        if server.query("SELECT pg_switch_wal()").is_err() {
            break client.mutex("new").try_acquire().await.unwrap_err();
        }
        match client.mutex(format!("new/{}", more.len())).try_acquire().await {
            Ok(granted) => more.push(granted),
            Err(refused) => break refused,
        }
    };
    match refused {
        Error::Store(error) if error.kind() == StoreErrorKind::Full => {
            assert!(error.to_string().contains("No space left on device"), "{error}");
        }
        // Another process of the server has noticed that first.
        Error::Store(error) => assert!(error.kind().is_outage(), "{error}"),
        Error::Indeterminate { .. } => {}
        other => panic!("{other}"),
    }
    short.lost().await;
    assert!(!short.is_held() && guard.is_held());
    assert!(other.mutex(SHORT).try_acquire().await.is_err(), "the server has stopped");

    must(fs::remove_file(&filler));
    must(server.kill9());
    must(server.restart());
    assert!(is_taken(&other).await, "the lease is on the disk");
    assert_still_held(&guard).await;
    let next = other.mutex(SHORT).acquire().await.unwrap();
    assert!(next.token() > first && is_taken(&other).await);
    guard.release().await.unwrap();
    assert!(!is_taken(&other).await);
}

#[test]
fn p10_a_server_that_stops_for_want_of_room_for_its_log_comes_back_with_what_it_granted() {
    on_a_disk_of("96m", "full log");
}
