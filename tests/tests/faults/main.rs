//! Faults of one real server, its network, its messages and its clock.
//!
//! A scenario shows what must hold; and where a fault does break something, that it does, since a
//! test of a fault that never happened proves nothing.
#![cfg(test)]

mod clocks;
mod contend;
mod data;
mod messages;
mod names;
mod network;
mod scene;
mod server;
