//! The cost of watching for a server with many names, and with many keys of other programs.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold::blocking::wait;

use super::served::Served;
use crate::harness::{Place, until};

/// Keys a second, as in the command.
const BUDGET: u64 = 2_000;

const NAMES: usize = 1_000;

/// The time of a command in seconds, its number of keys, and whether it is part of a scan. Commands
/// of a script count as that script.
fn asked(line: &str) -> Option<(f64, u64, bool)> {
    let (at, rest) = line.split_once(" [")?;
    let (source, command) = rest.split_once("] ")?;
    let words: Vec<&str> = command.split(' ').map(|word| word.trim_matches('"')).collect();
    let command = words.first()?.to_lowercase();
    let keys = match command.as_str() {
        _ if source.ends_with("lua") => 0,
        "scan" => words.last()?.parse().ok()?,
        "eval" | "evalsha" => words.get(2)?.parse().ok()?,
        "hget" => 1,
        _ => 0,
    };
    Some((at.parse().ok()?, keys, command == "scan"))
}

#[test]
fn the_budget_is_kept_with_1_000_names_beside_20_000_keys_of_others() {
    let place = Place::on_redis();
    let server = place.server.as_ref().unwrap();
    let () = server.command("DEBUG POPULATE 20000 foreign 16").unwrap();
    let client = wait(leasehold::Client::connect(&place.url)).unwrap();
    let held: Vec<_> = (0..NAMES)
        .map(|number| client.mutex(format!("n{number:04}")).ttl(Duration::from_hours(1)))
        .map(|lock| wait(lock.acquire()).unwrap())
        .collect();
    let lines = server.monitor().unwrap();
    let lines = std::thread::spawn(|| lines.collect::<Vec<_>>());
    let served = Served::start(&place, &[]);
    until("it knows all", || served.json("/api/v1/state")["held"] == NAMES);
    let () = server.command("ECHO over").unwrap();
    let (mut second, mut sum, mut total) = (VecDeque::new(), 0, 0);
    let (mut first, mut last, mut scans, mut scanned) = (None, 0.0, 0, 0);
    for line in lines.join().unwrap() {
        let Some((at, keys, is_scan)) = asked(&line).filter(|(_, keys, _)| *keys > 0) else {
            continue;
        };
        if is_scan {
            (scans, scanned) = (scans + 1, scanned + keys);
        }
        second.push_back((at, keys));
        sum += keys;
        while second.front().is_some_and(|(begin, _)| *begin <= at - 1.0) {
            sum -= second.pop_front().map_or(0, |(_, keys)| keys);
        }
        // A command of one quarter of a second may arrive in the next quarter.
        assert!(sum <= BUDGET + BUDGET / 4, "{sum} keys in the second before {at}");
        total += keys;
        (first, last) = (first.or(Some(at)), at);
    }
    let span = last - first.unwrap();
    assert!(scanned >= 50 * scans, "{scans} scans for {scanned} keys");
    assert!(total as f64 <= (span + 1.0) * BUDGET as f64, "{total} keys in {span} s");
    assert!(total > NAMES as u64 * 2, "every name is found and looked at: {total}");
    // The waiter still gets the lock.
    drop(held);
    place.end(&["run", "n0000", "--", "true"]).assert_silent(0);
}
