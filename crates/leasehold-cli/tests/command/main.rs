//! The real program, as its users type it: every subcommand, every exit code, signals, terminals,
//! and the command's fate when leasehold is killed or stopped.
#![cfg(test)]

#[macro_use]
mod harness;

mod completions;
mod connecting;
mod container;
mod deadlocks;
mod descendants;
mod doctor;
mod elect;
mod examples;
mod flooding;
mod forking;
mod guardian;
mod handles;
mod limits;
mod listing;
mod manifests;
mod nested;
mod once_per;
mod operator;
mod packaging;
mod peers;
mod permits;
mod places;
mod postgres;
mod quiet;
mod quorum;
mod recipes;
mod redisson;
mod releases;
mod run;
mod secrets;
mod serve;
mod several;
mod signals;
mod start_up;
mod taking;
mod terminal;
mod top;
mod unreadable;
mod usage;
mod waiting;
