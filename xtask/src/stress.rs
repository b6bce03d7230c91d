//! `cargo xtask stress`: the stress tests, one after the other, for as long as one likes.

use std::path::Path;

use crate::command::Run;
use crate::needs;
use crate::outcome::Outcome;

/// How the tests are told for how long, and how long it is where nothing is said.
pub(crate) const SPAN: &str = "LEASEHOLD_STRESS";
const DEFAULT: &str = "1m";

/// Runs on the topologies that are named, or on all; a span may come first.
pub(crate) fn run(root: &Path, how: &[&str]) -> Outcome {
    needs::redis_server()?;
    let (span, topologies) = split(how);
    // A test's name begins with its topology.
    let topologies: Vec<_> = topologies.iter().map(|name| format!("{name}_")).collect();
    let topologies: Vec<_> = topologies.iter().map(String::as_str).collect();
    let tests = ["--nocapture", "--test-threads=1"];
    let stress = ["test", "--locked", "--package", "leasehold-tests", "--test", "stress", "--"];
    Run::cargo(root, &[&stress[..], &topologies, &tests].concat()).with(SPAN, span).show()
}

fn split<'a, 'b>(how: &'b [&'a str]) -> (&'a str, &'b [&'a str]) {
    match how {
        [span, topologies @ ..] if span.starts_with(|c: char| c.is_ascii_digit()) => {
            (span, topologies)
        }
        topologies => (DEFAULT, topologies),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_may_come_before_the_topologies() {
        assert_eq!(split(&["10m", "file"]), ("10m", &["file"][..]));
        assert_eq!(split(&["file", "quorum"]), (DEFAULT, &["file", "quorum"][..]));
        assert_eq!(split(&[]), (DEFAULT, &[][..]));
    }
}
