//! The tests of every store of data parts, and of faults of some of them.
#![cfg(test)]

mod batch;
mod cluster;
mod conformance;
mod file;
mod numbers;
mod race;
