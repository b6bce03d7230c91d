//! The effects of clients on each other, on real stores and servers.
#![cfg(test)]

use leasehold_testkit::worker;

mod bundles;
mod connections;
mod cooldowns;
mod deaths;
mod dropping;
mod ending;
mod file_store;
mod first_contact;
mod outage;
mod pages;
mod redis_options;
mod redis_store;
mod trying;
mod unfetched;
mod user_code;
mod waiting;

/// A separate process of a test does the job of the module that is named first.
#[test]
#[ignore = "the jobs of the tests, each for a separate process"]
fn job() {
    let arguments = worker::arguments();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["deaths", url] => deaths::job(url),
        ["ending", end, url] => ending::job(end, url),
        ["file_store", ref rest @ ..] => file_store::job(rest),
        ["outage", url, prefix, clients, tasks] => outage::job([url, prefix, clients, tasks]),
        ref other => panic!("no such job: {other:?}"),
    }
}
