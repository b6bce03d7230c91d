//! Tests that need more than one crate are in `tests/`; there is no library.
#![forbid(unsafe_code)]
