//! Benchmarks of leasehold beside raw Redis scripts and peers.
#![forbid(unsafe_code)]

fn main() {}
