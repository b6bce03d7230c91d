//! Messages about names.

use super::*;
use crate::store::file::inbox::mark;

#[tokio::test]
async fn news_reach_all_who_listen_to_the_name_and_leave_no_pipe_behind() {
    let place = Place::new();
    let (teller, listener) = (place.open(), place.open());
    let mut heard = listener.subscribe(&name("a")).await.unwrap().unwrap();
    let mut other = listener.subscribe(&name("b")).await.unwrap().unwrap();
    let pipes = || {
        let entries = fs::read_dir(place.directory.path().join("locks.db.clients")).unwrap();
        let files = entries.map(|entry| entry.unwrap().file_name());
        files.filter(|file| file.to_string_lossy().starts_with("news-")).count()
    };
    for news in ["one", "two"] {
        teller.publish(&name("a"), news).await.unwrap();
    }
    teller.publish(&name("b"), "three").await.unwrap();
    assert_eq!(heard.next().await.as_deref(), Some("one"));
    assert_eq!(heard.next().await.as_deref(), Some("two"));
    assert_eq!(other.next().await.as_deref(), Some("three"));
    assert_eq!(pipes(), 2);
    drop((heard, other));
    assert_eq!(pipes(), 0);
}

#[tokio::test]
async fn the_longest_name_and_value_fit_a_pipe() {
    let place = Place::new();
    let store = place.open();
    let name = name(&"n".repeat(leasehold_core::name::MAX_NAME_BYTES));
    let mut heard = store.subscribe(&name).await.unwrap().unwrap();
    let value = "v".repeat(2 * leasehold_core::holder::MAX_INFO_BYTES);
    store.publish(&name, &value).await.unwrap();
    assert_eq!(heard.next().await, Some(value));
}

#[tokio::test]
async fn tidying_removes_the_pipes_of_listeners_that_were_killed() {
    let place = Place::new();
    let store = place.open();
    let _listener = store.subscribe(&name("a")).await.unwrap().unwrap();
    let side = place.directory.path().join("locks.db.clients");
    let dead = side.join(format!("{}0", mark(&name("nobody tells"))));
    rustix::fs::mkfifoat(rustix::fs::CWD, &dead, rustix::fs::Mode::RUSR).unwrap();
    place.clock.advance(TIDY_INTERVAL);
    tidy_until(&store, || !dead.exists()).await;
    let files = fs::read_dir(&side).unwrap().map(|entry| entry.unwrap().file_name());
    let left = files.filter(|file| file.to_string_lossy().starts_with(&mark(&name("a")))).count();
    assert_eq!(left, 1, "somebody listens there");
}
