//! Two releases on one store, and files that an earlier release has written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::handles::{MARK, decoded, encoded};
use crate::harness::{Background, PROGRAM, Place, ended, json, until};

/// How many programs of each release wait in the queue, and how often each comes back.
const EACH: usize = 16;
const ROUNDS: usize = 8;

/// Reads a number, adds one and writes it back, with no other protection, and notes its token.
const READ_ADD_WRITE: &str = "mkdir alone || echo two >>beside; read count <count;
    echo $((count + 1)) >count; echo $LEASEHOLD_TOKEN >>tokens; rmdir alone";

/// The program of another release, or this one if no other is named.
fn other_release() -> PathBuf {
    std::env::var_os("LEASEHOLD_OTHER_RELEASE").map_or_else(
        || {
            println!(
                "left out: another release beside this one: `cargo xtask releases` builds that of \
                 the last tag"
            );
            PROGRAM.into()
        },
        PathBuf::from,
    )
}

/// A command on a store, with the program of another release.
fn of(place: &Place, release: &Path, arguments: &[&str]) -> Command {
    place.program(&release.to_string_lossy(), arguments)
}

on_each_store!(
    no_update_is_lost_when_32_processes_of_two_releases_add_8_times_in_one_queue,
    each_release_shows_and_revokes_what_the_other_holds,
);

fn no_update_is_lost_when_32_processes_of_two_releases_add_8_times_in_one_queue(place: &Place) {
    fs::write(place.path("count"), "0\n").unwrap();
    let releases = [PathBuf::from(PROGRAM), other_release()];
    // The time limit ends the others when one has failed and the test has ended with its server.
    let run = format!("\"$0\" run queue -q --ttl 20s -w 3m -- sh -c '{READ_ADD_WRITE}'");
    let rounds = format!("for i in $(seq {ROUNDS}); do {run} || exit; done");
    let adder = |number: usize| {
        let release = releases[number % 2].to_string_lossy();
        let mut command = place.program("sh", &["-c", &rounds, &release]);
        command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let adders: Vec<_> = (0..2 * EACH).map(adder).collect();
    for mut adder in adders {
        assert!(adder.wait().unwrap().success());
    }
    let tokens = place.read("tokens");
    let tokens: Vec<u64> = tokens.lines().map(|token| token.parse().unwrap()).collect();
    let count = 2 * EACH * ROUNDS;
    assert_eq!((tokens.len(), place.read("beside")), (count, String::new()));
    assert_eq!(place.read("count").trim(), count.to_string());
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

fn each_release_shows_and_revokes_what_the_other_holds(place: &Place) {
    let other = other_release();
    for (number, (mine, theirs)) in
        [(Path::new(PROGRAM), &*other), (&other, Path::new(PROGRAM))].into_iter().enumerate()
    {
        let name = format!("held-{number}");
        let wait = ["run", &name, "--label", "fine", "--", "sh", "-c", "echo held; cat"];
        let mut holder = Background::fed(of(place, mine, &wait));
        assert_eq!(holder.line(), "held");
        let listed = || ended(of(place, theirs, &["ls"])).stdout;
        until("the label is told", || listed().contains(&name) && listed().contains("fine"));
        let shown = ended(of(place, theirs, &["show", &name, "--json"]));
        let shown = json(&shown.stdout);
        let token = shown["holders"][0]["token"].as_str().unwrap();
        ended(of(place, theirs, &["revoke", &name, token, "--force"])).assert_ended(0);
        ended(of(place, theirs, &["run", &name, "--", "true"])).assert_silent(0);
        holder.end().assert_ended(76);
    }
}

/// The names of all fields of a handle.
fn shape(handle: &Value) -> Vec<String> {
    let keys = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    [keys(handle), keys(&handle["names"][0])].concat()
}

#[test]
fn a_handle_as_each_release_writes_it_gives_back_what_was_taken() {
    let releases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility");
    let handles = fs::read_dir(releases).unwrap().map(|entry| entry.unwrap().path());
    let handles: Vec<_> = handles.map(|release| release.join("handle.txt")).collect();
    let place = Place::on_file();
    let (mut today, mut shapes) = (Value::Null, Vec::new());
    for path in handles {
        today = decoded(&place.end(&["take", "a", "--for", "1h", "--log", "log"]).stdout);
        // The same text, about a lease that exists.
        let mut then = decoded(&fs::read_to_string(path).unwrap());
        shapes.push(shape(&then));
        for field in ["host", "user", "store", "client"] {
            then[field] = today[field].clone();
        }
        for field in ["name", "token"] {
            then["names"][0][field] = today["names"][0][field].clone();
        }
        let handle = encoded(then.to_string().as_bytes());
        place.end(&["give", &handle]).assert_ended(0);
        place.end(&["show", "a"]).assert_ended(1);
    }
    assert!(
        shapes.contains(&shape(&today)),
        "a handle has other parts than any release wrote: give it another mark than {MARK}, and \
         add the file of this release"
    );
}
