//! `cargo xtask campaign`: the campaign on one kind of store after the other, for as long as one
//! likes, and the report on the runs that were kept.

use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::needs;
use crate::outcome::Outcome;

/// How the tests are told for how long, from which seed, and where to keep what came of it.
pub(crate) const SPAN: &str = "LEASEHOLD_CAMPAIGN";
const SEED: &str = "LEASEHOLD_CAMPAIGN_SEED";
const RUNS: &str = "LEASEHOLD_CAMPAIGN_RUNS";

/// Where nothing else is said.
const DEFAULT_SPAN: &str = "1m";
const DEFAULT_RUNS: &str = "target/campaign";

/// Eight hours.
const DEFAULT_SOAK: &str = "480";

/// Runs on the topologies that are named, or on all; one that fails does not keep the others from
/// being run.
pub(crate) fn run(root: &Path, how: &[&str]) -> Outcome {
    needs::redis_server()?;
    needs::faketime()?;
    let how = How::read(how)?;
    // A test's name begins with its topology, that of a control with this word before it.
    let prefix = if how.controls { "control_" } else { "" };
    let topologies: Vec<_> = how.topologies.iter().map(|name| format!("{prefix}{name}_")).collect();
    let mut topologies: Vec<_> = topologies.iter().map(String::as_str).collect();
    if topologies.is_empty() && how.controls {
        topologies.push(prefix);
    }
    let tests = ["--nocapture", "--test-threads=1"];
    let which: &[&str] = if how.controls { &["--ignored"] } else { &[] };
    let campaign = ["test", "--locked", "--package", "leasehold-tests", "--test", "campaign"];
    let profile: &[&str] = if how.release { &["--release"] } else { &[] };
    let run = [&campaign[..], profile, &["--"], &topologies, which, &tests].concat();
    let run = Run::cargo(root, &run);
    let run = run.with(SPAN, how.span).with(RUNS, &root.join(how.runs).to_string_lossy());
    match how.seed {
        Some(seed) => run.with(SEED, seed),
        None => run,
    }
    .show()
}

/// Acquires for so many minutes, on one server, and fails if anything grows.
pub(crate) fn soak(root: &Path, how: &[&str]) -> Outcome {
    needs::redis_server()?;
    let minutes = match how {
        [] => DEFAULT_SOAK,
        [minutes] if minutes.parse::<f64>().is_ok() => minutes,
        _ => return Err(format!("soak: {how:?} are no minutes")),
    };
    let (runs, soak) = (root.join(DEFAULT_RUNS), ["--release", "--locked"]);
    let task = ["--package", "leasehold-benches", "--", "soak", minutes, &runs.to_string_lossy()];
    Run::cargo(root, &[&["run"][..], &soak, &task].concat()).show()
}

/// Makes the tables and pictures of `docs/evidence`.
pub(crate) fn report(root: &Path, runs: &[&str]) -> Outcome {
    let runs = match runs {
        [] => DEFAULT_RUNS,
        [runs] => runs,
        _ => return Err("campaign --report: one directory at most".to_owned()),
    };
    let (runs, evidence): (PathBuf, _) = (root.join(runs), root.join("docs/evidence"));
    let report = ["run", "--locked", "--package", "leasehold-benches", "--", "evidence"];
    let places = [&*runs.to_string_lossy(), &*evidence.to_string_lossy()];
    Run::cargo(root, &[&report[..], &places].concat()).show()
}

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct How<'a> {
    span: &'a str,
    seed: Option<&'a str>,
    runs: &'a str,
    controls: bool,
    /// With what is optimized: more is done in the same time.
    release: bool,
    topologies: Vec<&'a str>,
}

impl<'a> How<'a> {
    fn read(words: &[&'a str]) -> Outcome<Self> {
        let (span, runs) = (DEFAULT_SPAN, DEFAULT_RUNS);
        let topologies = Vec::new();
        let mut how = Self { span, seed: None, runs, controls: false, release: false, topologies };
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("campaign: {word} what?"));
            match word {
                "--seed" => how.seed = Some(value()?),
                "--controls" => how.controls = true,
                "--release" => how.release = true,
                "--runs" => how.runs = value()?,
                "--topology" => how.topologies.push(value()?),
                span if span.starts_with(|c: char| c.is_ascii_digit()) => how.span = span,
                _ => return Err(format!("campaign: {word:?} is no span and no option")),
            }
        }
        Ok(how)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_a_seed_topologies_and_a_directory_are_told_apart() {
        let words = ["10m", "--seed", "7", "--topology", "file", "--topology", "quorum"];
        let topologies = vec!["file", "quorum"];
        let (seed, runs) = (Some("7"), DEFAULT_RUNS);
        let how = How { span: "10m", seed, runs, controls: false, release: false, topologies };
        assert_eq!(How::read(&words), Ok(how));
        assert_eq!(How::read(&["--release"]).map(|how| how.release), Ok(true));
        assert_eq!(How::read(&["--runs", "x"]).map(|how| how.runs), Ok("x"));
    }

    #[test]
    fn what_is_neither_a_span_nor_an_option_is_refused() {
        assert!(How::read(&["file"]).is_err());
        assert!(How::read(&["--seed"]).is_err());
    }
}
