//! Lists of names in pages, for a client that reads them again and again: the cost for a server.

use leasehold::admin::Page;
use leasehold::error::StoreErrorKind;
use leasehold::{Client, Error, LockName};
use leasehold_testkit::RedisServer;

#[tokio::test]
async fn a_page_costs_one_scan_of_as_many_keys_as_were_allowed_foreign_ones_too() {
    let server = RedisServer::start().unwrap();
    let client = Client::connect(&server.patient_url()).await.unwrap();
    let _held = client.mutex("a").acquire().await.unwrap();
    server.command::<()>("DEBUG POPULATE 5000 foreign").unwrap();
    let (admin, mut names, mut pages) = (client.admin(), Vec::new(), 0);
    let mut after = None;
    loop {
        let page = admin.page("", after.as_deref(), 500).await.unwrap();
        let Page { names: some, next, scanned, .. } = page;
        assert_eq!(scanned as usize, 500 + some.len());
        names.extend(some);
        pages += 1;
        after = next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(names.iter().map(LockName::as_str).collect::<Vec<_>>(), ["a"]);
    let scans = server.command_stats("scan").unwrap().0;
    assert!(scans == pages && (2..=11).contains(&pages), "{scans} for {pages} pages");
    assert_eq!(server.command_stats("keys").unwrap().0, 0);
    let refused = admin.page("", Some("of another store"), 1).await.unwrap_err();
    let Error::Store(error) = refused else { panic!("{refused:?}") };
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
}
