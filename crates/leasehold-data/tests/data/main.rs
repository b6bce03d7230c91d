//! What every store of data parts must do, and what befalls some of them.
#![cfg(test)]

mod batch;
mod blocking;
mod cluster;
mod conformance;
mod file;
mod race;
