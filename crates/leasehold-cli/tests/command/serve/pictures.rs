//! The picture of the page in the documents, of a small shop at work. This command makes it anew:
//! `LEASEHOLD_PICTURES=$PWD/docs cargo test -p leasehold-cli --test command -- pictures`

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_testkit::RedisServer;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::page::{begins, open};
use super::served::Served;
use crate::harness::Place;

/// How long the shop works before the picture for the documents is taken, so that timelines have
/// bars. In other runs, the test only waits for rows.
const AT_WORK: Duration = Duration::from_secs(45);

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// The largest picture for the documents.
const MOST_BYTES: u64 = 200 * 1024;

/// The work of one worker, again and again: a name, a label, how long it holds, how long it rests.
const WORKERS: [(&str, &str, u64, u64); 8] = [
    ("invoices/42", "billing", 4_000, 300),
    ("invoices/42", "reminder", 2_500, 500),
    ("invoices/42", "archive", 1_500, 900),
    ("stock/sku-8841", "checkout", 700, 400),
    ("stock/sku-8841", "returns", 900, 1_500),
    ("search/reindex", "worker 1", 9_000, 2_000),
    ("search/reindex", "worker 2", 6_000, 2_000),
    ("mail/outbox", "sender", 1_200, 2_600),
];

/// Makes the page show a usual store URL instead of a test's URL.
const NAMED: &str = "const before = note; note = (told) => before(\
    { ...told, store: { ...told.store, url: 'redis://10.0.0.5/0' } }); note(state)";

/// Works until it is dropped.
async fn work(url: String, (name, label, hold_ms, rest_ms): (&str, &str, u64, u64)) {
    let client = Client::connect(&url).await.unwrap();
    loop {
        let guard = client.mutex(name).label(label).acquire().await.unwrap();
        sleep(Duration::from_millis(hold_ms)).await;
        guard.release().await.unwrap();
        sleep(Duration::from_millis(rest_ms)).await;
    }
}

#[tokio::test]
async fn the_page_of_a_shop_at_work_fits_a_window_and_a_phone_by_day_and_by_night() {
    let server = RedisServer::options().append_only("always").start().unwrap();
    // The server has no findings for the doctor: these are for another picture.
    server.command::<()>("CONFIG SET maxmemory 1gb").unwrap();
    let place = Place { url: server.patient_url(), server: Some(server), ..Place::on_file() };
    let client = Client::connect(&place.url).await.unwrap();
    let (leader, freeze) = (client.mutex("leader/scheduler"), client.mutex("deploy"));
    let _leader = leader.label("app-1:8080").ttl(HOUR).acquire().await.unwrap();
    let freeze = freeze.label("freeze until Monday, ask Ada").ttl(HOUR);
    let _freeze = freeze.acquire().await.unwrap();
    let mut shared = Vec::new();
    for run in 7..10 {
        let permit = client.semaphore("gpu", 5).permit().label(format!("training run {run}"));
        shared.push(permit.ttl(HOUR).acquire().await.unwrap());
    }
    for label in ["web", "app"] {
        let read = client.rwlock("catalogue").read().label(label).ttl(HOUR);
        shared.push(read.acquire().await.unwrap());
    }
    let mut workers = JoinSet::new();
    for worker in WORKERS {
        workers.spawn(work(place.url.clone(), worker));
    }
    let served = Served::start(&place, &[]);
    let browser = open(&served, 1280, 720).await;
    // A page that was just opened would show empty timelines.
    let begun = Instant::now();
    browser.until("document.querySelectorAll('.row').length >= 5").await;
    begins(&browser, "verdict", "Nothing is stuck").await;
    if std::env::var_os("LEASEHOLD_PICTURES").is_some() {
        sleep(AT_WORK.saturating_sub(begun.elapsed())).await;
    }
    browser.run(NAMED).await;
    for (name, width, height, is_phone) in
        [("serve", 1280, 620, false), ("serve-phone", 390, 844, true)]
    {
        browser.resize(width, height, is_phone).await;
        for (scheme, suffix) in [("dark", "-dark"), ("light", "")] {
            browser.paint(scheme).await;
            let dark = format!("matchMedia('(prefers-color-scheme: {scheme})').matches");
            browser.until(&dark).await;
            browser.run("draw()").await;
            let fits =
                "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
            browser.until(fits).await;
            let file = browser.picture(&format!("{name}{suffix}.png")).await;
            let size = std::fs::metadata(&file).unwrap().len();
            assert!(size < MOST_BYTES, "{}: {size} bytes", file.display());
        }
    }
    assert_eq!(browser.errors().await, [""; 0]);
    browser.close().await;
    drop(shared);
}
