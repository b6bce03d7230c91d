//! A store made of stores: what every store must do, contention, and faults of its nodes. Scenarios
//! are named by their number in the catalogue of faults.

mod clocks;
mod conformance;
mod contention;
mod fleet;
mod late;
mod memory_loss;
mod minorities;
mod refusals;
mod renewals;
