//! `leasehold doctor`: finds what would break a promise, and how to repair it.

use leasehold::Error;
use leasehold::store::{Finding, Level, examine, examine_setup};
use serde::Serialize;

use crate::args::Doctor;
use crate::report::{Failure, NO, Outcome, escaped, print, print_json};
use crate::runtime::block_on;
use crate::store_url::StoreUrl;

/// The words for the levels that are counted.
const DANGER: &str = "danger";
const WARNING: &str = "warning";

/// The output of `--json`, with a finding for each place.
#[derive(Debug, Serialize)]
pub(super) struct Checkup {
    store: String,
    pub(super) dangers: usize,
    pub(super) warnings: usize,
    /// The findings, the worst first, because some people read only the first lines.
    findings: Vec<FindingView>,
}

/// One finding of a checkup.
#[derive(Debug, Serialize)]
struct FindingView {
    /// `ok`, `warning` or `danger`.
    level: &'static str,
    place: String,
    topic: &'static str,
    found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    risk: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

/// The output for people: a finding, and all places that have it.
struct Group<'a> {
    finding: &'a FindingView,
    places: Vec<&'a str>,
}

/// Examines the store.
pub(crate) fn doctor(args: &Doctor) -> Outcome {
    let choice = args.output.store.choose()?;
    choice.prepare()?;
    let store = choice.url.to_string();
    let report = match block_on(examine(choice.url.reveal()))? {
        Ok(findings) => Checkup::new(store, findings),
        Err(error) => {
            if args.output.json && matches!(error, Error::Store(_)) {
                print_json(&Checkup::unreachable(store, &error))?;
            }
            return Err(error.into());
        }
    };
    match args.output.json {
        true => print_json(&report)?,
        false => {
            let groups = grouped(&report.findings);
            let count = |level| groups.iter().filter(|group| group.finding.level == level).count();
            let summary = summary(count(DANGER), count(WARNING));
            print(format_args!("{}: {summary}", escaped(&report.store)))?;
            groups.iter().try_for_each(print_group)?;
        }
    }
    let is_sick = report.dangers > 0 || (args.strict && report.warnings > 0);
    Ok(if is_sick { NO } else { 0 })
}

/// The same findings as `--json`, except deadlocks: to find those takes a scan of all names.
pub(super) async fn report(url: &StoreUrl) -> Checkup {
    match examine_setup(url.reveal()).await {
        Ok(findings) => Checkup::new(url.to_string(), findings),
        Err(error) => Checkup::unreachable(url.to_string(), &error),
    }
}

impl Checkup {
    fn new(store: String, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| rank(finding.level));
        let findings: Vec<_> = findings.into_iter().map(FindingView::new).collect();
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        Self { store, dangers: count(DANGER), warnings: count(WARNING), findings }
    }

    /// The finding about a store that could not be examined.
    fn unreachable(store: String, error: &Error) -> Self {
        let finding = FindingView {
            level: DANGER,
            place: store.clone(),
            topic: "reachable",
            found: error.to_string(),
            risk: "nothing can be locked".to_owned(),
            remedy: "start it, or mend the store URL".to_owned(),
        };
        Self { store, dangers: 1, warnings: 0, findings: vec![finding] }
    }
}

impl FindingView {
    fn new(finding: Finding) -> Self {
        let level = match finding.level {
            Level::Danger => DANGER,
            Level::Ok => "ok",
            _ => WARNING,
        };
        let Finding { place, topic, found, risk, remedy, .. } = finding;
        Self { level, place, topic, found, risk, remedy }
    }

    /// Whether `other` is the same finding, perhaps at another place.
    fn is_like(&self, other: &Self) -> bool {
        (self.level, self.topic, &self.found) == (other.level, other.topic, &other.found)
            && (&self.risk, &self.remedy) == (&other.risk, &other.remedy)
    }
}

/// Groups equal findings of several places into one, at the position of the first.
fn grouped(findings: &[FindingView]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for finding in findings {
        match groups.iter_mut().find(|group| group.finding.is_like(finding)) {
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

/// Prints a finding in one line, then the risk and the remedy.
fn print_group(Group { finding, places }: &Group<'_>) -> Result<(), Failure> {
    let (level, places) = (finding.level, escaped(&places.join(", ")));
    print(format_args!("{level:<8} {places}: {}", escaped(&finding.found)))?;
    for (title, text) in [("risk", &finding.risk), ("remedy", &finding.remedy)] {
        if !text.is_empty() {
            print(format_args!("{:<8} {title}: {}", "", escaped(text)))?;
        }
    }
    Ok(())
}
