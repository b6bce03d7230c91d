//! The campaign: everything at once, on every kind of store. Processes take locks in every way,
//! give up, and hand leases on. They are stopped and killed, while a nemesis hurts the servers.
//! Then their records are judged on the clock that all processes share: the promises of each guard,
//! the tokens, the waits, and the protected values.
//!
//! `evidence/README.md` says how to run it for as long as one likes.
#![cfg(test)]

mod crew;
mod data;
mod doing;
mod driver;
mod fault;
mod fleet;
mod judge;
mod nemesis;
mod place;
mod plan;
mod player;
mod process;
mod promise;
mod random;
mod register;
mod report;
mod settings;
mod stall;
mod topology;

use leasehold_testkit::worker;

use self::driver::run;
use self::settings::Settings;
use self::topology::Topology;

#[test]
#[ignore = "a process of the tests below"]
fn job() {
    match worker::arguments().as_slice() {
        [command, arguments @ ..] if command == "command" => fleet::work(arguments),
        arguments => process::work(arguments),
    }
}

#[test]
#[ignore = "no test: it writes the page of figures, evidence/campaign.md"]
fn report() {
    let runs = Settings::read().runs.expect("LEASEHOLD_CAMPAIGN_RUNS names the runs");
    report::write(&runs, concat!(env!("CARGO_MANIFEST_DIR"), "/../campaign.md").as_ref());
}

#[test]
fn bank_fenced_updates_of_overtaken_holders_are_never_committed() {
    if let Some(outcome) = run(Topology::Bank) {
        assert!(outcome.updates > 0);
    }
}

macro_rules! runs {
    ($($topology:ident: fn $test:ident();)+) => {
        $(#[test] fn $test() { run(Topology::$topology); })+
    };
}

runs! {
    Clock: fn clock_guards_keep_their_word_while_it_is_set_back_and_runs_badly();
    Cluster: fn cluster_guards_keep_their_word_while_slots_move_and_nodes_hang();
    Durable: fn durable_guards_keep_their_word_while_it_is_killed_and_their_rights_are_taken();
    File: fn file_guards_keep_their_word_while_processes_are_stopped_and_killed();
    Forgetful: fn forgetful_tokens_grow_while_everything_is_forgotten_and_time_leaps();
    Memory: fn memory_guards_keep_their_word_while_their_process_is_stopped();
    Plain: fn plain_guards_keep_their_word_while_the_network_does_not();
    Postgres: fn postgres_guards_keep_their_word_while_it_is_killed_and_recovers();
    PostgresBouncer: fn postgres_bouncer_guards_keep_their_word_while_it_pauses_and_is_killed();
    PostgresStandby: fn postgres_standby_guards_keep_their_word_while_it_takes_over();
    Quarantine: fn quarantine_guards_keep_their_word_while_everything_is_forgotten();
    Quorum: fn quorum_guards_keep_their_word_while_nodes_hang_die_and_come_back_empty();
    Redisson: fn redisson_guards_keep_their_word_while_it_hangs_and_the_network_fails();
    ReplicasAll: fn replicas_all_guards_keep_their_word_while_a_replica_hangs();
    ReplicasOne: fn replicas_one_guards_keep_their_word_while_the_replica_hangs();
    Sentinel: fn sentinel_guards_keep_their_word_while_servers_hang_die_and_take_over();
    Server: fn server_guards_keep_their_word_while_it_hangs_and_the_network_fails();
    Sharded: fn sharded_guards_keep_their_word_while_nodes_forget_and_take_over();
}

#[test]
#[ignore = "a negative control: it shows that the attack on the bank would find something"]
fn control_bank_unfenced_updates_of_overtaken_holders_are_committed_and_lost() {
    if let Some(outcome) = run(Topology::BankUnfenced) {
        assert!(outcome.lost_updates > 0);
    }
}

#[test]
#[ignore = "a negative control: it shows that to be parted with a sentinel is a fault"]
fn control_sentinel_alone_without_replicas_a_parted_primary_grants_beside_the_next() {
    if let Some(outcome) = run(Topology::SentinelAlone) {
        assert!(outcome.double_holds() > 0);
    }
}
