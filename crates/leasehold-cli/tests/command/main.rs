//! The real program, as its users type it: every subcommand, every exit code, signals, terminals,
//! and the command's fate when leasehold is killed or stopped.

#[cfg(test)]
#[macro_use]
mod harness;

#[cfg(test)]
mod completions;
#[cfg(test)]
mod connecting;
#[cfg(test)]
mod container;
#[cfg(test)]
mod deadlocks;
#[cfg(test)]
mod descendants;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod elect;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod flooding;
#[cfg(test)]
mod forking;
#[cfg(test)]
mod guardian;
#[cfg(test)]
mod handles;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod main_job;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod nested;
#[cfg(test)]
mod operator;
#[cfg(test)]
mod packaging;
#[cfg(test)]
mod peers;
mod permits;
#[cfg(test)]
mod places;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod quiet;
#[cfg(test)]
mod quorum;
#[cfg(test)]
mod recipes;
#[cfg(test)]
mod redisson;
#[cfg(test)]
mod releases;
#[cfg(test)]
mod run;
#[cfg(test)]
mod secrets;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod several;
#[cfg(test)]
mod signals;
#[cfg(test)]
mod start_up;
#[cfg(test)]
mod taking;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod unreadable;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod waiting;
