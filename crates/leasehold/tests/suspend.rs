//! A lease ends on time although the machine was suspended meanwhile.
//!
//! A test cannot suspend the machine. In a time namespace, the clock that counts suspended time can
//! be ahead of the other one, as after a suspend.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::time::{Clock, Instant, SystemClock};

/// How long the machine seems to have been suspended.
const SUSPENDED: Duration = Duration::from_hours(24);

/// The text before the clock's time in whole seconds, in the namespace with the offset.
const SHOWN: &str = "the clock shows ";

fn shown() -> Duration {
    SystemClock::new().now().saturating_since(Instant::default())
}

#[test]
#[ignore = "a job of the test, for a separate process"]
fn the_time() {
    println!("\n{SHOWN}{}", shown().as_secs());
}

#[test]
fn the_clock_of_leases_counts_the_time_that_the_machine_was_suspended() {
    let seconds = SUSPENDED.as_secs().to_string();
    let unshared = |program: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--fork", "--time", "--boottime", &seconds]);
        command.args(program).stdin(Stdio::null()).output()
    };
    match unshared(&["true"]) {
        Ok(output) if output.status.success() => {}
        other => {
            println!("left out: unshare --time is not allowed here: {other:?}");
            return;
        }
    }
    let own = std::env::current_exe().unwrap();
    let own = own.to_string_lossy();
    let output = unshared(&[&own, "--ignored", "--exact", "the_time", "--nocapture"]).unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let there = text.lines().find_map(|line| line.strip_prefix(SHOWN)?.parse().ok());
    let there = Duration::from_secs(there.unwrap_or_else(|| panic!("{text}")));
    let ahead = there.saturating_sub(shown());
    assert!(ahead > SUSPENDED - Duration::from_mins(1), "{ahead:?}");
}
