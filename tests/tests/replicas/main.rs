//! Acknowledged replicas and the restart guard: what each setting prevents, and what it does not.
#![cfg(test)]

mod claim;
