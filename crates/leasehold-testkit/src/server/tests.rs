//! Tests that the servers of tests do what their names say.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::test_kill_process;

use super::*;

#[test]
fn a_server_ends_when_it_is_dropped() {
    let server = RedisServer::start().unwrap();
    let process = Pid::from_child(&server.process);
    // The port is not checked: another program may have it a moment later.
    assert!(test_kill_process(process).is_ok());
    drop(server);
    assert!(test_kill_process(process).is_err());
}

/// How far the server's clock is ahead of the machine's, within the time that asking takes.
fn ahead_s(server: &RedisServer) -> f64 {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let (seconds, micros): (f64, f64) = server.command("TIME").unwrap();
    seconds + micros / 1e6 - now()
}

#[test]
fn a_clock_runs_at_another_rate_from_now_on() {
    let server = RedisServer::options().own_clock().start().unwrap();
    let since = Instant::now();
    server.set_clock(0.0, 100.0).unwrap();
    while ahead_s(&server) < 20.0 {
        assert!(since.elapsed() < Duration::from_secs(60), "it never runs faster");
    }
    server.set_clock(0.0, 1.0).unwrap();
    assert!(ahead_s(&server) < 5.0);
}
