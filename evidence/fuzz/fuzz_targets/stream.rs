//! Fuzzes the target of this name.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_fuzz::read(env!("CARGO_BIN_NAME"), bytes));
