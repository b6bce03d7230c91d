//! No printed line contains a password, even if its URL is mistyped. Neither does an argument, or a
//! variable that others may see.

use std::process::Command;

use leasehold::blocking::wait;
use leasehold::store::shown_url;

use crate::harness::{Background, PROGRAM, Place, children, ended, until};

/// Texts that must be nowhere: the parts of the passwords below.
const SECRETS: [&str; 2] = ["hunter", "5ecret"];

/// URLs as people type them, most of them wrong.
const URLS: &str = "redis://bob:hunter/5ecret@127.0.0.1:1|redis://bob:hunter?5ecret@127.0.0.1:1|\
    redis://bob:hunter#5ecret@127.0.0.1:1|redis://bob:hunter@5ecret@127.0.0.1:1|\
    redis://bob:hunter:5ecret@127.0.0.1:1|redis://bob:hunter 5ecret@127.0.0.1:1|\
    redis://bob:hunter%2@127.0.0.1:1|redis://bob:hunter[5ecret@127.0.0.1:1|\
    redis://bob:hunter://5ecret@127.0.0.1:1|redis://bob:hunter@127.0.0.1:1|\
    redis://:hunter@127.0.0.1:1|redis://hunter@127.0.0.1:1|\
    redis://hunter5ecret:@127.0.0.1:hunter|redis://bob:hunter@127.0.0.1:1/5ecret|\
    redis://bob:hunter@127.0.0.1:x|redis://bob:hunter@|redis://bob:hunter|\
    redis://127.0.0.1:hunter|redis://127.0.0.1:1:hunter|redis://127.0.0.1:1/hunter|\
    redis://127.0.0.1:1?password=hunter|redis://127.0.0.1:1?hunter|\
    redis://127.0.0.1:1?timeout=1s&sentinel_user=hunter|redis://127.0.0.1:1#hunter|\
    redis://[::1]hunter|redis://[hunter|redis:bob:hunter@127.0.0.1:1|\
    redis:/bob:hunter@127.0.0.1:1|redis:///bob:hunter@127.0.0.1:1|redis//bob:hunter@127.0.0.1:1|\
    redis//hunter@127.0.0.1:1|bob:hunter@127.0.0.1:1|hunter@127.0.0.1:1|:hunter@127.0.0.1:1|\
    \x20redis://bob:hunter@127.0.0.1:1|\"redis://bob:hunter@127.0.0.1:1\"|\
    http://bob:hunter@127.0.0.1:1|file://bob:hunter@127.0.0.1/c.db|file:c.db?password=hunter|\
    redis+galaxy://bob:hunter@127.0.0.1:1|redis+unix://bob:hunter@/nowhere/redis.sock|\
    redis+unix://bob:hunter/nowhere/redis.sock|rediss+sentinel://bob:hunter@127.0.0.1:1|\
    redis+quorum://bob:hunter@127.0.0.1:1,bob:hunter@127.0.0.1:2";

#[track_caller]
fn assert_hidden(what: &str, shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{what}: {shown}");
    }
}

/// The words before the URL, and the words after it.
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
    for url in URLS.split('|') {
        print_nothing(url);
    }
}

#[test]
fn no_debug_and_no_error_shows_a_password_however_its_url_is_mistyped() {
    for url in URLS.split('|') {
        assert_hidden(url, &shown_url(url));
        let builder = leasehold::Client::builder().url(url);
        assert_hidden(url, &format!("{builder:?} {builder:#?}"));
        let error = wait(leasehold::Client::connect(url)).unwrap_err();
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

/// Checks that others cannot read a password in a process.
#[track_caller]
fn assert_shows_no_password(pid: impl std::fmt::Display) {
    for file in ["cmdline", "environ"] {
        let read = || std::fs::read(format!("/proc/{pid}/{file}")).unwrap();
        // It is empty while a process replaces its program.
        until("there is something to see", || !read().is_empty());
        let bytes = read();
        assert_hidden(file, &String::from_utf8_lossy(&bytes));
    }
}

/// A server with a password takes it from these variables.
fn with_passwords(mut command: Command, url: &str) -> Command {
    let (store, password) = ("LEASEHOLD_STORE", "LEASEHOLD_PASSWORD");
    command.env(store, url).env(password, "5ecret").env("LEASEHOLD_SENTINEL_PASSWORD", "5ecret");
    command
}

#[test]
fn the_guardian_and_the_command_are_given_no_password() {
    let place = Place::on_redis();
    // A server without a password accepts any password.
    let url = place.url.replace("redis://", "redis://default:hunter@");
    let mut by_option = place.shell("x", &["--store", &url], "echo $$; exec sleep 1000");
    by_option.env_remove("LEASEHOLD_STORE");
    let by_environment = place.shell("y", &[], "echo $$; exec sleep 1000");
    for command in [by_option, with_passwords(by_environment, &url)] {
        let mut holder = Background::start(command);
        let command: i32 = holder.line().parse().unwrap();
        let guardian = children(holder.pid())[0].as_raw_nonzero();
        assert_shows_no_password(guardian);
        assert_shows_no_password(command);
        let read = |file| std::fs::read_to_string(format!("/proc/{guardian}/{file}")).unwrap();
        assert_eq!(read("comm"), "leasehold\n", "as ps shows it");
        assert!(!read("cmdline").contains("://"), "nor is the guardian given the store's URL");
    }
}

#[test]
fn a_command_has_the_passwords_if_it_is_to_keep_them_and_else_the_same_store_without() {
    let place = Place::on_redis();
    let url = place.url.replace("redis://", "redis://default:hunter@");
    let script = "echo $LEASEHOLD_STORE $LEASEHOLD_PASSWORD";
    let kept = place.shell("x", &["--keep-password"], script);
    assert_eq!(ended(with_passwords(kept, &url)).stdout, format!("{url} 5ecret\n"));
    let without = ended(with_passwords(place.shell("x", &[], script), &url)).stdout;
    assert_eq!(without, format!("{}\n", url.replace(":hunter@", "@")));
    // A leasehold in the command works with the passwords, and otherwise names the missing one.
    let nested = format!("{PROGRAM} run y -- echo nested");
    let kept = place.shell("x", &["--keep-password"], &nested);
    assert_eq!(ended(with_passwords(kept, &url)).stdout, "nested\n");
    let without = place.shell("x", &[], &nested);
    ended(with_passwords(without, &url)).assert_failed(2, "LEASEHOLD_PASSWORD");
}

#[test]
fn the_process_behind_take_shows_no_password_and_uses_it() {
    let place = Place::on_redis();
    let url = place.url.replace("redis://", "redis://default:hunter@");
    for (name, by_option) in [("a", true), ("b", false)] {
        let arguments = ["take", name, "--for", "1h", "--log", "log", "-s", &url];
        let count = if by_option { arguments.len() } else { arguments.len() - 2 };
        let take = place.leasehold(&arguments[..count]);
        let take = if by_option { take } else { with_passwords(take, &url) };
        let taken = ended(take);
        taken.assert_silent(0);
        assert_shows_no_password(&place.show(name)["holders"][0]["pid"]);
        place.end(&["give", taken.stdout.trim_end()]).assert_silent(0);
    }
}
