//! What shells offer at TAB: the functions that they call, in the real shells.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::harness::{Background, Ended, PROGRAM, Place, ended};

/// Names with characters that are special in shells or at word breaks.
const NAMES: [&str; 4] = ["acc'q", "acc:1/a", "acc:2 b", "zed$x"];

/// A place where those names are held for as long as the second value lives.
fn place() -> (Place, [Background; NAMES.len()]) {
    let place = Place::on_file();
    let holders = NAMES.map(|name| place.holder(name, &[]));
    (place, holders)
}

fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let ended = place.end(&[&["@complete"], words].concat());
    ended.assert_silent(0);
    let values = ended.stdout.lines().filter_map(|line| line.split('\t').next());
    values.map(str::to_owned).collect()
}

/// A script in a shell that finds the command as a user's shell does.
fn script(place: &Place, shell: &str, script: &str) -> Ended {
    let (path, directory) = (std::env::var_os("PATH"), Path::new(PROGRAM).parent());
    let path = path.as_deref().map(std::env::split_paths).into_iter().flatten();
    let directories = directory.into_iter().map(Path::to_path_buf).chain(path);
    let mut command = place.program(shell, &["-c", script]);
    command.env("PATH", std::env::join_paths(directories).unwrap());
    ended(command)
}

/// Whether this shell is installed; not every machine has it.
fn has(shell: &str) -> bool {
    Command::new(shell).arg("--version").output().is_ok_and(|shown| shown.status.success())
}

#[test]
fn names_of_locks_are_completed_where_a_name_stands() {
    let (place, _holders) = place();
    let _holder = place.holder("zone", &[]);
    assert_eq!(offered(&place, &["run", "acc"]), NAMES[..3]);
    assert_eq!(offered(&place, &["run", "acc:"]), NAMES[1..3]);
    assert_eq!(offered(&place, &["run", "x", "z"]), ["zed$x", "zone"]);
    assert_eq!(offered(&place, &["elect", "--value", "v", "ze"]), ["zed$x"]);
    for command in ["show", "revoke", "ls"] {
        assert_eq!(offered(&place, &[command, "z"]), ["zed$x", "zone"], "{command}");
    }
    assert_eq!(offered(&place, &["run", "--label", "z"]), [""; 0], "a label is no name");
}

#[test]
fn commands_options_and_pages_are_completed_and_options_only_where_a_dash_is_typed() {
    let place = Place::on_file();
    assert_eq!(offered(&place, &["sho"]), ["show"]);
    assert_eq!(offered(&place, &["-v", "sho"]), ["show"]);
    assert_eq!(offered(&place, &["run", "--max"]), ["--max-hold"]);
    assert_eq!(offered(&place, &["run", "--on-lost", "t"]), ["term"]);
    assert_eq!(offered(&place, &["run", ""]), [""; 0]);
    assert_eq!(offered(&place, &["man", "s"]), ["schema", "serve", "show", "store"]);
    let pages = offered(&place, &["man", ""]);
    for page in pages {
        place.end(&["man", &page]).assert_silent(0);
    }
}

#[test]
fn names_come_from_the_store_that_the_line_names() {
    let (place, (other, _holders)) = (Place::on_file(), place());
    for options in [
        &["run", "-s", &other.url][..],
        &["run", &format!("--store={}", other.url)],
        &["run", &format!("-s{}", other.url)],
        &["-s", &other.url, "run"],
    ] {
        assert_eq!(offered(&place, &[options, &["ze"]].concat()), ["zed$x"], "{options:?}");
    }
}

#[test]
fn a_store_that_is_away_or_not_made_yet_offers_nothing_and_holds_up_nobody() {
    let mut place = Place::on_file();
    assert_eq!(offered(&place, &["run", "a"]), [""; 0]);
    let made = fs::read_dir(place.directory.path()).unwrap().count();
    assert_eq!(made, 0, "pressing TAB made a store");
    for url in ["mysql://h/", "redis://127.0.0.1:1/", "file:/proc/locks.db"] {
        place.url = url.to_owned();
        assert_eq!(offered(&place, &["run", "a"]), [""; 0], "{url}");
    }
    // It accepts connections and never answers; without another limit, this would take a minute.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    place.url = format!("redis://{address}/?timeout=60s");
    assert_eq!(offered(&place, &["run", "a"]), [""; 0]);
}

#[test]
fn bash_completes_names_with_colons_blanks_and_quotes() {
    let (place, _holders) = place();
    // A line up to the cursor, the words that bash makes of it, and what it replaces.
    let complete = |line: &str, words: &str, current: &str| {
        let lines = [
            "source <(leasehold completions bash)".to_owned(),
            format!("COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"),
            format!("COMP_LINE={line}; COMP_POINT=${{#COMP_LINE}}"),
            format!("_leasehold leasehold {current} previous"),
            "printf '%s\\n' \"${COMPREPLY[@]}\"".to_owned(),
        ];
        let ended = script(&place, "bash", &lines.join("\n"));
        ended.assert_silent(0);
        ended.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let run = |typed: &str, words: &str, current: &str| {
        complete(&format!("$'leasehold run {typed}'"), &format!("leasehold run {words}"), current)
    };
    assert_eq!(run("acc", "acc", "acc"), [r"acc\'q", "acc:1/a", r"acc:2\ b"]);
    assert_eq!(run("acc:", "acc :", "''"), ["1/a", r"2\ b"]);
    assert_eq!(run("acc:1", "acc : 1", "1"), ["1/a"]);
    assert_eq!(run("z", "z", "z"), [r"zed\$x"]);
    assert_eq!(run(r"\'acc:2", r"\'acc:2", "acc:2"), ["acc:2 b"], "bash closes the quotes");
    let store = format!("--store='{}'", place.url);
    let (typed, words) = (store.replace('\'', r"\'"), store.replace('=', " = "));
    let words = words.replace("'", r"\'");
    assert_eq!(run(&format!("{typed} ze"), &format!("{words} ze"), "ze"), [r"zed\$x"]);
    let behind = run("x -- hostnam", "x -- hostnam", "hostnam");
    assert!(behind.iter().any(|command| command == "hostname"), "{behind:?}");
}

#[test]
fn zsh_completes_names_with_colons_blanks_and_quotes() {
    if !has("zsh") {
        return; // `cargo xtask test` says so
    }
    let (place, _holders) = place();
    let complete = |words: &str| {
        let lines = [
            "compdef() { : }",
            "eval \"$(leasehold completions zsh)\"",
            "_describe() { print -rl -- \"${(@P)2}\" }",
            "_normal() { print -r -- \"$words[CURRENT] behind $words[1]\" }",
            &format!("words=(leasehold {words}); CURRENT=$#words"),
            "_leasehold",
        ];
        let ended = script(&place, "zsh", &lines.join("\n"));
        ended.assert_silent(0);
        ended.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The text behind a colon that is not escaped is the description.
    assert_eq!(complete("run acc"), ["acc'q:", r"acc\:1/a:", r"acc\:2 b:"]);
    assert_eq!(complete(r"run acc\\:1"), [r"acc\:1/a:"]);
    assert_eq!(complete(&format!("run -s \"'{}'\" ze", place.url)), ["zed$x:"]);
    assert_eq!(complete("run x -- git chec"), ["chec behind git"]);
}

#[test]
fn fish_completes_names_with_colons_blanks_and_quotes() {
    if !has("fish") {
        return; // `cargo xtask test` says so
    }
    let (place, _holders) = place();
    let complete = |line: &str| {
        let line = format!("leasehold completions fish | source; complete -C {line:?}");
        let ended = script(&place, "fish", &line);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let values = ended.stdout.lines().filter_map(|line| line.split('\t').next());
        values.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(complete("leasehold run acc"), NAMES[..3]);
    assert_eq!(complete("leasehold run acc:1"), NAMES[1..2]);
    assert_eq!(complete(&format!("leasehold run -s '{}' ze", place.url)), ["zed$x"]);
    let behind = complete("leasehold run x -- hostnam");
    assert!(behind.iter().any(|command| command == "hostname"), "{behind:?}");
}

#[test]
fn other_shells_know_the_command_line() {
    let place = Place::on_file();
    for shell in ["elvish", "powershell"] {
        let script = place.end(&["completions", shell]);
        script.assert_silent(0);
        assert!(script.stdout.contains("--max-hold"), "{shell}");
    }
}
