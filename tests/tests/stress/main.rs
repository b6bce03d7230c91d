//! Everything at once, on every kind of store: processes that take turns at names in every way
//! there is, give up, hand leases on, are stopped and killed, while the place where the locks live
//! is hurt. Exclusion is judged by what each guard promised, on the clock that all of them share.
//!
//! `cargo xtask stress` runs it for as long as one likes.
#![cfg(test)]

mod driver;
mod judge;
mod plan;
mod process;
mod promise;
mod random;
mod topology;
mod verbs;

use self::driver::run;
use self::topology::Topology;

#[test]
#[ignore = "a process of the tests below"]
fn job() {
    process::job();
}

#[test]
fn cluster_guards_keep_their_word_while_slots_move_and_nodes_hang() {
    run(Topology::Cluster);
}

#[test]
fn file_guards_keep_their_word_while_processes_are_stopped_and_killed() {
    run(Topology::File);
}

#[test]
fn memory_guards_keep_their_word_while_their_process_is_stopped() {
    run(Topology::Memory);
}

#[test]
fn plain_guards_keep_their_word_while_processes_are_stopped_and_killed() {
    run(Topology::Plain);
}

#[test]
fn quarantine_guards_keep_their_word_while_everything_is_forgotten() {
    run(Topology::Quarantine);
}

#[test]
fn quorum_guards_keep_their_word_while_nodes_hang_die_and_come_back_empty() {
    run(Topology::Quorum);
}

#[test]
fn redisson_guards_keep_their_word_while_the_server_hangs_and_cuts_connections() {
    run(Topology::Redisson);
}

#[test]
fn replicas_all_guards_keep_their_word_while_a_replica_hangs() {
    run(Topology::ReplicasAll);
}

#[test]
fn replicas_one_guards_keep_their_word_while_the_replica_hangs() {
    run(Topology::ReplicasOne);
}

#[test]
fn sentinel_guards_keep_their_word_while_servers_hang_and_take_over() {
    run(Topology::Sentinel);
}

#[test]
fn server_guards_keep_their_word_while_it_hangs_and_cuts_connections() {
    run(Topology::Server);
}
