//! Locks in a cluster: what every store must do, and what befalls only a cluster.
#![cfg(test)]

mod conformance;
