//! The main job: many processes, and work that only one of them may do at a time.

use std::fs;
use std::process::{Child, Stdio};

use crate::harness::{PROGRAM, Place};

const PROCESSES: usize = 32;
const ROUNDS: u64 = 8;

/// Reads a number, adds one and writes it back, with no other protection, and notes its token.
const READ_ADD_WRITE: &str = "read count <count
    echo $((count + 1)) >count
    echo $LEASEHOLD_TOKEN >>tokens";

on_each_store!(no_update_is_lost_when_32_processes_add_8_times,);

/// The time limit ends the others when one has failed and the test has ended with its server.
fn no_update_is_lost_when_32_processes_add_8_times(place: &Place) {
    fs::write(place.path("count"), "0\n").unwrap();
    let rounds = format!(
        "i=0; while [ $i -lt {ROUNDS} ]; do
            \"$0\" run counter -w 3m -- sh -c '{READ_ADD_WRITE}' || exit; i=$((i + 1));
        done"
    );
    let adders: Vec<Child> = (0..PROCESSES)
        .map(|_| {
            let mut command = place.program("sh", &["-c", &rounds, PROGRAM]);
            command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
        })
        .collect();
    for mut adder in adders {
        assert!(adder.wait().unwrap().success());
    }
    let expected = PROCESSES as u64 * ROUNDS;
    assert_eq!(place.read("count").trim().parse(), Ok(expected));
    let tokens = place.read("tokens");
    let tokens: Vec<u64> = tokens.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(tokens.len() as u64, expected);
    assert!(tokens.is_sorted_by(|one, next| one < next), "a token did not grow");
}
