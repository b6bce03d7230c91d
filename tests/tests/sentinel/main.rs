//! The Redis store where sentinels say who is the primary.

#[cfg(test)]
mod conformance;
