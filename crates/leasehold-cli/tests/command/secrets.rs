//! Passwords: they are in no line that is printed, however the URL they stand in was mistyped, and
//! in no argument and no variable that others may see.

use leasehold::store::shown_url;

use crate::harness::{Background, Place, children, ended};

/// What must be nowhere: the pieces of the passwords below.
const SECRETS: [&str; 2] = ["hunter", "5ecret"];

/// URLs as people type them, most of them wrong.
const URLS: [&str; 44] = [
    "redis://bob:hunter/5ecret@127.0.0.1:1",
    "redis://bob:hunter?5ecret@127.0.0.1:1",
    "redis://bob:hunter#5ecret@127.0.0.1:1",
    "redis://bob:hunter@5ecret@127.0.0.1:1",
    "redis://bob:hunter:5ecret@127.0.0.1:1",
    "redis://bob:hunter 5ecret@127.0.0.1:1",
    "redis://bob:hunter%2@127.0.0.1:1",
    "redis://bob:hunter[5ecret@127.0.0.1:1",
    "redis://bob:hunter://5ecret@127.0.0.1:1",
    "redis://bob:hunter@127.0.0.1:1",
    "redis://:hunter@127.0.0.1:1",
    "redis://hunter@127.0.0.1:1",
    "redis://hunter5ecret:@127.0.0.1:hunter",
    "redis://bob:hunter@127.0.0.1:1/5ecret",
    "redis://bob:hunter@127.0.0.1:x",
    "redis://bob:hunter@",
    "redis://bob:hunter",
    "redis://127.0.0.1:hunter",
    "redis://127.0.0.1:1:hunter",
    "redis://127.0.0.1:1/hunter",
    "redis://127.0.0.1:1?password=hunter",
    "redis://127.0.0.1:1?hunter",
    "redis://127.0.0.1:1?timeout=1s&sentinel_user=hunter",
    "redis://127.0.0.1:1#hunter",
    "redis://[::1]hunter",
    "redis://[hunter",
    "redis:bob:hunter@127.0.0.1:1",
    "redis:/bob:hunter@127.0.0.1:1",
    "redis:///bob:hunter@127.0.0.1:1",
    "redis//bob:hunter@127.0.0.1:1",
    "redis//hunter@127.0.0.1:1",
    "bob:hunter@127.0.0.1:1",
    "hunter@127.0.0.1:1",
    ":hunter@127.0.0.1:1",
    " redis://bob:hunter@127.0.0.1:1",
    "\"redis://bob:hunter@127.0.0.1:1\"",
    "http://bob:hunter@127.0.0.1:1",
    "file://bob:hunter@127.0.0.1/c.db",
    "file:c.db?password=hunter",
    "redis+galaxy://bob:hunter@127.0.0.1:1",
    "redis+unix://bob:hunter@/nowhere/redis.sock",
    "redis+unix://bob:hunter/nowhere/redis.sock",
    "rediss+sentinel://bob:hunter@127.0.0.1:1",
    "redis+quorum://bob:hunter@127.0.0.1:1,bob:hunter@127.0.0.1:2",
];

#[track_caller]
fn assert_hidden(what: &str, shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what}: {shown}");
    }
}

/// What stands before the URL, and what follows it.
const COMMAND_LINES: [(&[&str], &[&str]); 7] = [
    (&["where", "--store"], &[]),
    (&["where", "--json", "-s"], &[]),
    (&["ls", "--store"], &[]),
    (&["doctor", "--store"], &[]),
    (&["run", "x", "-n", "-v", "--store"], &["--", "true"]),
    (&["where"], &[]),
    (&[], &[]),
];

fn print_nothing(url: &str) {
    let place = Place::on_file();
    for (before, after) in COMMAND_LINES {
        let ended = place.end(&[before, &[url], after].concat());
        assert_hidden(&format!("{before:?} {url}"), &format!("{ended:?}"));
    }
    let mut command = place.leasehold(&["where"]);
    command.env("LEASEHOLD_STORE", url);
    assert_hidden(url, &format!("{:?}", ended(command)));
}

#[test]
fn no_command_prints_a_password_however_its_url_is_mistyped() {
    for url in URLS {
        print_nothing(url);
    }
}

#[test]
fn no_debug_and_no_error_shows_a_password_however_its_url_is_mistyped() {
    for url in URLS {
        assert_hidden(url, &shown_url(url));
        let builder = leasehold::Client::builder().url(url);
        assert_hidden(url, &format!("{builder:?} {builder:#?}"));
        let error = leasehold::blocking::Client::connect(url).unwrap_err();
        assert_hidden(url, &format!("{error} {error:?} {error:#?}"));
    }
}

#[test]
fn what_is_shown_of_a_sound_url_is_all_but_its_password() {
    for (url, shown) in [
        ("redis://u:hunter@h:1/0", "redis://u:***@h:1/0"),
        ("rediss://:p%40ss@h/?timeout=1s", "rediss://:***@h/?timeout=1s"),
        ("redis+quorum://u:p@a,b,c/2", "redis+quorum://u:***@a,b,c/2"),
        ("redis+unix://u:p@/run/a.sock", "redis+unix://u:***@/run/a.sock"),
        ("redis://u@h/", "redis://***@h/"),
        ("redis://h/?prefix=a:b", "redis://h/?prefix=a:b"),
        ("redis:h", "redis:***"),
        ("file:/a:b@c", "file:/a:b@c"),
        ("file://u:p@h/c", "file:***"),
        ("memory:", "memory:"),
        ("h:6379", "***"),
    ] {
        assert_eq!(shown_url(url), shown);
    }
}

#[test]
fn the_guardian_and_the_command_are_not_given_the_url() {
    let place = Place::on_redis();
    let url = place.url.replace("redis://", "redis://default:hunter@");
    let options = ["--store", &url];
    // A server without a password takes any.
    let mut command = place.shell("x", &options, "echo $$; exec sleep 1000");
    command.env_remove("LEASEHOLD_STORE");
    let mut holder = Background::start(command);
    let command = holder.line().parse().unwrap();
    for pid in [children(holder.pid())[0].as_raw_nonzero().get(), command] {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
            assert_hidden(file, &String::from_utf8_lossy(&bytes));
        }
    }
}
