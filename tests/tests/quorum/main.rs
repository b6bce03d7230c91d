//! A store made of stores: what every store must do, contention, and faults of its nodes.

mod adopting;
mod clocks;
mod conformance;
mod contention;
mod fleet;
mod identity;
mod late;
mod memory_loss;
mod minorities;
mod modes;
mod outage;
mod permanent;
mod refusals;
mod renewals;
mod replicated_nodes;
mod taken;
