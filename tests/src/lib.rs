//! Tests that need more than one crate are in `tests/`; there is no library.
//!
//! A test whose name begins with a letter and a number, as `c1_…` does, is about one fault. The
//! letter stands for the part that has the fault, and the number for one fault of that part:
//!
//! | letter | part with the fault | tests |
//! |---|---|---|
//! | A | a process that holds or waits | `contention.rs`, `deaths.rs`, `evidence/campaign` |
//! | B | the network between a client and a server | `faults/network.rs`, `plain/late.rs` |
//! | C | one server: process, memory, disk | `faults/server.rs`, `faults/data.rs`, `replicas/` |
//! | D | a primary, its replicas and its sentinels | `sentinel/`, `replicas/` |
//! | E | a cluster | `cluster/` |
//! | F | messages | `faults/messages.rs` |
//! | H | the nodes of a quorum | `quorum/` |
//! | I | clocks | `faults/clocks.rs` |
//! | J | the files of a file store | `file_store.rs`, `full_disk.rs` |
//! | K | rights: what a user may do | `faults/data.rs` |
//! | P | a PostgreSQL server, its standby, a pooler | `postgres/` |
//!
//! The tables of `GUARANTEES.md` list each fault that can break a promise, under the same letter
//! and number, and the promises that hold in each mode. They also have the letters L (`leasehold
//! run`) and R (a restart of the machine), whose tests have no numbers in their names.
#![forbid(unsafe_code)]
