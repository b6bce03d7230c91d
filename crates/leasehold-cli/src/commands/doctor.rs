//! `leasehold doctor`: what would break a promise, and what mends it.

use leasehold::Error;
use leasehold::store::{Finding, Level, examine, examine_setup};
use serde::Serialize;

use crate::args::Doctor;
use crate::report::{Failure, NO, Outcome, escaped, print, print_json};
use crate::runtime::block_on;
use crate::store_choice;
use crate::store_url::StoreUrl;

/// What is printed with `--json`: a line for each finding at each place.
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

/// What is printed for people: a finding, and all the places where it was made.
struct Group<'a> {
    finding: &'a Finding,
    places: Vec<&'a str>,
}

/// Examines the store.
pub(crate) fn doctor(args: &Doctor) -> Outcome {
    let choice = store_choice::choose(args.store.store.as_ref())?;
    choice.prepare()?;
    let store = choice.url.to_string();
    let findings = match block_on(examine(choice.url.reveal()))? {
        Ok(findings) => worst_first(findings),
        Err(error) => {
            if args.output.json && matches!(error, Error::Store(_)) {
                print_json(&unreachable(&store, &error.to_string()))?;
            }
            return Err(error.into());
        }
    };
    let report = Report::new(&store, &findings);
    let (dangers, warnings) = (report.dangers, report.warnings);
    match args.output.json {
        true => print_json(&report)?,
        false => {
            let groups = grouped(&findings);
            let count = |level| groups.iter().filter(|group| group.finding.level == level).count();
            let summary = summary(count(Level::Danger), count(Level::Warning));
            print(format_args!("{}: {summary}", escaped(&store)))?;
            groups.iter().try_for_each(print_group)?;
        }
    }
    let is_sick = dangers > 0 || (args.strict && warnings > 0);
    Ok(if is_sick { NO } else { 0 })
}

/// What `--json` prints of a store but for deadlocks, which would take a scan of all names, and how
/// many dangers and warnings there are.
pub(super) async fn report(url: &StoreUrl) -> (serde_json::Value, usize, usize) {
    let store = url.to_string();
    let findings = examine_setup(url.reveal()).await.map(worst_first);
    let error = findings.as_ref().err().map(ToString::to_string);
    let report = match (&findings, &error) {
        (Ok(findings), _) => Report::new(&store, findings),
        (Err(_), error) => unreachable(&store, error.as_deref().unwrap_or_default()),
    };
    // Nothing in it can fail to be JSON.
    let json = serde_json::to_value(&report).unwrap_or_default();
    (json, report.dangers, report.warnings)
}

/// The worst first, for readers of the first lines.
fn worst_first(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| rank(finding.level));
    findings
}

impl<'a> Report<'a> {
    fn new(store: &str, findings: &'a [Finding]) -> Self {
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        Self {
            store: store.to_owned(),
            dangers: count(Level::Danger),
            warnings: count(Level::Warning),
            findings: findings.iter().map(line).collect(),
        }
    }
}

/// The report of a store of which nothing could be looked at.
fn unreachable<'a>(store: &'a str, error: &'a str) -> Report<'a> {
    let line = Line {
        level: word(Level::Danger),
        place: store,
        topic: "reachable",
        found: error,
        risk: "nothing can be locked",
        remedy: "start it, or mend the store URL",
    };
    Report { store: store.to_owned(), dangers: 1, warnings: 0, findings: vec![line] }
}

/// The same finding at several places is one, where it was made first.
fn grouped(findings: &[Finding]) -> Vec<Group<'_>> {
    let is_same = |one: &Finding, other: &Finding| {
        (one.level, one.topic, &one.found) == (other.level, other.topic, &other.found)
            && (&one.risk, &one.remedy) == (&other.risk, &other.remedy)
    };
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|group| is_same(group.finding, finding)) {
            Some(group) => group.places.push(&finding.place),
            None => groups.push(Group { finding, places: vec![&finding.place] }),
        }
    }
    groups
}

fn rank(level: Level) -> u8 {
    match level {
        Level::Danger => 0,
        Level::Ok => 2,
        _ => 1,
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Danger => "danger",
        Level::Ok => "ok",
        _ => "warning",
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
fn print_group(Group { finding, places }: &Group<'_>) -> Result<(), Failure> {
    let (level, places) = (word(finding.level), escaped(&places.join(", ")));
    print(format_args!("{level:<8} {places}: {}", escaped(&finding.found)))?;
    for (title, text) in [("risk", &finding.risk), ("remedy", &finding.remedy)] {
        if !text.is_empty() {
            print(format_args!("{:<8} {title}: {}", "", escaped(text)))?;
        }
    }
    Ok(())
}
