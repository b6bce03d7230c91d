//! Kills the processes of a sale again and again. The program itself checks that nothing is
//! oversold, no number is given twice, and every confirmed order is deducted exactly once.

use std::process::Command;

use leasehold_testkit::RedisServer;

/// Runs a sale, and returns its output.
fn sale(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_flash-sale")).args(arguments).output();
    let output = output.map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(printed),
        false => Err(format!("{printed}\n{}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Sells more and more until a process was killed meanwhile: a fast machine may sell a few thousand
/// pieces before the first kill.
fn sale_under_fire(store: &str, way: &str, orders: u32, every: &str) {
    let counts = std::iter::successors(Some(orders), |orders| orders.checked_mul(4));
    for orders in counts.map(|orders| orders.to_string()) {
        let arguments =
            ["--store", store, "--way", way, "--orders", &orders, "--kill-every", every];
        let printed = sale(&arguments).unwrap_or_else(|printed| panic!("{printed}"));
        assert!(printed.contains("all checks passed"), "{printed}");
        if printed.contains("were killed and started again") {
            return;
        }
    }
    panic!("nobody was ever killed");
}

#[test]
fn each_way_of_protection_stays_right_while_its_processes_are_killed() {
    for (way, orders, every) in [
        ("stock", 20_000, "200ms"),
        // Others wait for about a second for a dead holder's lease. Processes are killed one by
        // one, so each lives for about four seconds.
        ("lock", 2_000, "500ms"),
        ("batch", 8_000, "500ms"),
        ("version", 6_000, "200ms"),
    ] {
        let server = RedisServer::start().unwrap();
        sale_under_fire(&server.patient_url(), way, orders, every);
    }
}

#[test]
fn without_any_protection_the_sale_goes_wrong_and_the_check_says_so() {
    let server = RedisServer::start().unwrap();
    let url = server.patient_url();
    // Only chance makes the sale go wrong, and more sales make that more certain.
    let went_wrong = ["2000", "8000", "32000", "128000"].into_iter().any(|orders| {
        let printed = sale(&["--store", &url, "--way", "naive", "--orders", orders]).unwrap();
        printed.contains("WRONG: ") && printed.contains("oversold by")
    });
    assert!(went_wrong, "nothing was ever oversold");
}

#[test]
fn bad_options_are_refused_in_one_line() {
    for (arguments, words) in [
        (&["--orders", "7"][..], "give 100 to 10000000"),
        (&["--orders"], "needs a value"),
        (&["--way", "hope"], "no way \"hope\""),
        (&["--kill-every", "5"], "has no unit"),
        (&["--fast"], "unknown option --fast"),
        (&["--store", "mysql://x"], "mysql"),
    ] {
        let printed = sale(arguments).unwrap_err();
        assert!(printed.contains(words), "{arguments:?}: {printed}");
    }
}
