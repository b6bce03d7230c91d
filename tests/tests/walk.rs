//! ARCHITECTURE.md names the files that an acquire and its release pass, and a test goes that way:
//! a profiler keeps the stack of each allocation, and so the files that call each other.
#![cfg(test)]

use std::fs;
use std::process::Command;

use leasehold::Client;
use leasehold::time::FakeClock;
use leasehold_testkit::{RedisServer, must};

#[global_allocator]
static HEAP: dhat::Alloc = dhat::Alloc;

const PAGE: &str = include_str!("../../ARCHITECTURE.md");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/leasehold/src/");

#[tokio::test]
async fn the_page_names_each_file_that_an_acquire_and_its_release_pass() {
    let server = must(RedisServer::start());
    // A clock that stands still, so that nothing is due meanwhile.
    let client = Client::builder().url(server.url()).clock(FakeClock::default()).build();
    let lock = must(client.await).lock("walk");
    must(must(lock.acquire().await).release().await);
    let place = must(tempfile::NamedTempFile::new());
    let profiler = dhat::Profiler::builder().file_name(place.path()).trim_backtraces(None).build();
    must(must(lock.acquire().await).release().await);
    drop(profiler);
    let profile = must(fs::read_to_string(place));
    // The profiler keeps the last three parts of a path.
    let is_on_stack = |path: &str| {
        let parts: Vec<&str> = path.rsplitn(4, '/').take(3).collect();
        profile.contains(&format!("({}/{}/{}:", parts[2], parts[1], parts[0]))
    };
    let found = must(Command::new("find").args([SOURCE, "-name", "*.rs"]).output());
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let way = PAGE.split("\n- ").find(|part| part.starts_with("**Acquire and release**")).unwrap();
    let named: Vec<&str> = way.split('`').skip(1).step_by(2).collect();
    let name = |path: &str| path.replace(SOURCE, "").replace(".rs", "").replace("store/r", "r");
    let is_unnamed = |path: &&str| is_on_stack(path) && !named.contains(&name(path).as_str());
    assert_eq!(found.lines().filter(is_unnamed).collect::<Vec<_>>(), [""; 0]);
    let is_gone = |file: &&&str| !found.lines().any(|path| name(path) == **file);
    assert_eq!(named.iter().filter(is_gone).collect::<Vec<_>>(), [&""; 0]);
}
