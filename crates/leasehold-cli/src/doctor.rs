//! `leasehold doctor`: what would break a promise, and what mends it.

use leasehold::store::{Finding, Level, examine};
use serde::Serialize;

use crate::args::Doctor;
use crate::report::{Failure, NO, Outcome, Voice, escaped, print, print_json};
use crate::{runtime, store_choice};

/// What is printed with `--json`.
#[derive(Serialize)]
struct Report<'a> {
    store: String,
    dangers: usize,
    warnings: usize,
    findings: Vec<Line<'a>>,
}

/// One finding in it.
#[derive(Serialize)]
struct Line<'a> {
    level: &'static str,
    place: &'a str,
    topic: &'a str,
    found: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    risk: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    remedy: &'a str,
}

/// Examines the store.
pub(crate) fn doctor(args: &Doctor) -> Outcome {
    let voice = Voice::from(args.output.voice);
    let choice = store_choice::choose(args.store.store.as_ref())?;
    choice.prepare(voice)?;
    let mut findings = runtime()?.block_on(examine(choice.url.reveal())).map_err(Failure::from)?;
    // Whoever reads only the first lines reads the worst.
    findings.sort_by_key(|finding| rank(finding.level));
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let (dangers, warnings) = (count(Level::Danger), count(Level::Warning));
    let store = choice.url.to_string();
    match args.output.json {
        true => {
            let findings = findings.iter().map(line).collect();
            print_json(&Report { store, dangers, warnings, findings })?;
        }
        false => {
            print(format_args!("{}: {}", escaped(&store), summary(dangers, warnings)))?;
            findings.iter().try_for_each(print_finding)?;
        }
    }
    let is_sick = dangers > 0 || (args.strict && warnings > 0);
    Ok(if is_sick { NO } else { 0 })
}

fn rank(level: Level) -> u8 {
    match level {
        Level::Danger => 0,
        Level::Warning => 1,
        Level::Ok => 2,
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Danger => "danger",
        Level::Ok => "ok",
        Level::Warning => "warning",
    }
}

fn line(finding: &Finding) -> Line<'_> {
    Line {
        level: word(finding.level),
        place: &finding.place,
        topic: finding.topic,
        found: &finding.found,
        risk: &finding.risk,
        remedy: &finding.remedy,
    }
}

fn summary(dangers: usize, warnings: usize) -> String {
    let some = |count: usize, what: &str| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        count => Some(format!("{count} {what}s")),
    };
    let parts: Vec<String> =
        some(dangers, "danger").into_iter().chain(some(warnings, "warning")).collect();
    match parts.is_empty() {
        true => "all is well".to_owned(),
        false => parts.join(" and "),
    }
}

/// What was found in one line, then what could happen and what mends it.
fn print_finding(finding: &Finding) -> Result<(), Failure> {
    let (level, place) = (word(finding.level), escaped(&finding.place));
    print(format_args!("{level:<8} {place}: {}", escaped(&finding.found)))?;
    for (title, text) in [("risk", &finding.risk), ("remedy", &finding.remedy)] {
        if !text.is_empty() {
            print(format_args!("{:<8} {title}: {}", "", escaped(text)))?;
        }
    }
    Ok(())
}
