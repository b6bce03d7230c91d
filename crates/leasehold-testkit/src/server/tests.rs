//! Tests that the servers of tests do what their names say.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::test_kill_process;

use super::*;

#[test]
fn a_restarted_server_remembers_what_its_append_only_file_holds() {
    let mut server = RedisServer::options().append_only("always").start().unwrap();
    server.command::<()>("SET a 1").unwrap();
    server.restart(Data::Kept).unwrap();
    assert_eq!(server.command::<u32>("GET a").unwrap(), 1);
    server.restart(Data::Dropped).unwrap();
    assert_eq!(server.command::<Option<u32>>("GET a").unwrap(), None);
}

#[test]
fn a_server_with_a_password_a_user_and_tls_starts() {
    let server = RedisServer::options()
        .password("secret")
        .user("holder on >pw ~lh:* -@all +ping")
        .tls(true)
        .start()
        .unwrap();
    assert_eq!(server.command_stats("set").unwrap(), (0, 0));
    assert!(server.acl_log().unwrap().is_empty());
    assert!(server.url_as("holder", "pw").starts_with("rediss://holder:pw@127.0.0.1:"));
}

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
fn a_clock_is_set_forward_and_back_and_stays_so_over_a_restart() {
    let mut server = RedisServer::options().own_clock().start().unwrap();
    assert!(ahead_s(&server).abs() < 5.0);
    server.set_clock(3600.0, 1.0).unwrap();
    assert!((ahead_s(&server) - 3600.0).abs() < 5.0);
    server.restart(Data::Dropped).unwrap();
    assert!((ahead_s(&server) - 3600.0).abs() < 5.0);
    server.set_clock(-3600.0, 1.0).unwrap();
    assert!((ahead_s(&server) + 3600.0).abs() < 5.0);
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
