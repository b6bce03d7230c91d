//! Fuzzes the target that has the name of the program.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| leasehold_fuzz::read(env!("CARGO_BIN_NAME"), bytes));
