//! `leasehold doctor`: finds what would break a promise, and how to repair it.

use std::path::Path;

use leasehold::admin::LeaseId;
use leasehold::store::{Finding, Level, Topic, examine};
use leasehold::{Client, Error, LockName};
use serde::Serialize;

use super::ls::look_at_all;
use super::totals::unreadable_in_words;
use crate::args::Doctor;
use crate::connection::ask;
use crate::report::{Failure, NO, Outcome, escaped, print, print_json};
use crate::runtime::block_on;
use crate::store_choice::Choice;
use crate::store_url::StoreUrl;
use crate::watch::{Row, Wait, deadlocks};

/// The words for the levels that are counted.
const DANGER: &str = "danger";
const WARNING: &str = "warning";

/// The topic of findings about clients that wait for each other.
const DEADLOCKS: &str = "deadlocks";

/// The most unreadable names that a finding shows.
const MOST_NAMED: usize = 5;

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
#[derive(Clone, Debug, Serialize)]
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

/// Examines the store.
pub(crate) fn doctor(args: &Doctor) -> Outcome {
    let choice = args.output.store.choose()?;
    choice.prepare()?;
    let store = choice.url.to_string();
    let report = match block_on(examine(choice.url.reveal()))? {
        Ok(mut findings) => {
            findings.extend(of_locks(args, &choice, &findings));
            Checkup::new(store, findings)
        }
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
            let findings = merged(&report.findings);
            let summary = summary(count(&findings, DANGER), count(&findings, WARNING));
            print(format_args!("{}: {summary}", escaped(&report.store)))?;
            findings.iter().try_for_each(print_finding)?;
        }
    }
    let is_sick = report.dangers > 0 || (args.strict && report.warnings > 0);
    Ok(if is_sick { NO } else { 0 })
}

/// The same findings as `--json`, except those about locks: to find them takes a scan of all names.
pub(super) async fn report(url: &StoreUrl) -> Checkup {
    match examine(url.reveal()).await {
        Ok(findings) => Checkup::new(url.to_string(), findings),
        Err(error) => Checkup::unreachable(url.to_string(), &error),
    }
}

/// The findings about the locks of an examined store: clients that wait for each other, and records
/// that cannot be read. There are none if the user lacks rights, or if a connection would change
/// the store: one that does not exist yet, or a quorum.
fn of_locks(args: &Doctor, choice: &Choice, examined: &[Finding]) -> Vec<Finding> {
    let is_there = choice.url.file().is_none_or(Path::exists);
    let lacks = |topic| examined.iter().any(|it| it.topic == topic && it.level != Level::Ok);
    if !is_there || choice.url.is_on_quorum() || lacks("rights") {
        return Vec::new();
    }
    let place = choice.url.to_string();
    let look = async |client: &Client| Ok(look_at_all(&client.admin(), "").await?.0);
    match ask(choice, args.output.store.verbosity, look) {
        Ok(locks) => in_locks(&place, &locks),
        Err(failure) => {
            let found = format!("the locks cannot be looked at: {}", failure.message);
            let (risk, remedy) = ("a deadlock stays unseen", "mend that, and run doctor again");
            vec![Topic(&place, DEADLOCKS).warning(found, risk, remedy)]
        }
    }
}

fn in_locks(place: &str, locks: &[(LockName, Row)]) -> Vec<Finding> {
    let rows: Vec<_> = locks.iter().map(|(name, row)| (name, row)).collect();
    let mut findings = Vec::new();
    for deadlock in deadlocks(&rows) {
        let revoke =
            |it: &Wait<'_>| format!("`leasehold revoke {} {}`", it.name, LeaseId::of(it.holder));
        let revokes = deadlock.0.iter().map(revoke).collect::<Vec<_>>().join(" or ");
        let found = format!("probably a deadlock: {deadlock}");
        let risk = "they wait for ever, because the leases that they hold are renewed";
        let remedy = format!(
            "end one of them: {revokes}; and for the next time take the names in one call, which \
             cannot deadlock (`leasehold run A B`, `client.multi`), or bound the wait (`--wait`)"
        );
        findings.push(Topic(place, DEADLOCKS).warning(found, risk, &remedy));
    }
    if findings.is_empty() {
        findings.push(Topic(place, DEADLOCKS).ok("no deadlock among the waiters"));
    }
    let unreadable = locks.iter().filter(|(_, row)| row.unreadable.is_some());
    let names: Vec<&str> = unreadable.map(|(name, _)| name.as_str()).collect();
    if let Some(words) = unreadable_in_words(names.len()) {
        let first = names[..names.len().min(MOST_NAMED)].join(", ");
        let (found, risk) = (format!("{words}: {first}"), "nobody can take or renew such a name");
        let remedy = "`leasehold ls` says why, and what to do, for each name";
        findings.push(Topic(place, "records").danger(found, risk, remedy));
    }
    findings
}

impl Checkup {
    fn new(store: String, mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| ranked(finding.level));
        let findings: Vec<_> = findings.into_iter().map(FindingView::new).collect();
        let [dangers, warnings] = [DANGER, WARNING].map(|level| count(&findings, level));
        Self { store, dangers, warnings, findings }
    }

    /// The report on a store that could not be examined.
    fn unreachable(store: String, error: &Error) -> Self {
        let (risk, remedy) = ("nothing can be locked", "start it, or mend the store URL");
        let finding = Topic(&store, "reachable").danger(error.to_string(), risk, remedy);
        Self::new(store, vec![finding])
    }
}

impl FindingView {
    fn new(finding: Finding) -> Self {
        let Finding { level, place, topic, found, risk, remedy, .. } = finding;
        let (_, level) = ranked(level);
        Self { level, place, topic, found, risk, remedy }
    }

    /// Whether `other` is the same finding, perhaps at another place.
    fn is_like(&self, other: &Self) -> bool {
        (self.level, self.topic, &self.found) == (other.level, other.topic, &other.found)
            && (&self.risk, &self.remedy) == (&other.risk, &other.remedy)
    }
}

fn count(findings: &[FindingView], level: &str) -> usize {
    findings.iter().filter(|finding| finding.level == level).count()
}

/// Merges equal findings of several places into one, at the position of the first.
fn merged(findings: &[FindingView]) -> Vec<FindingView> {
    let mut merged: Vec<FindingView> = Vec::new();
    for finding in findings {
        match merged.iter_mut().find(|other| other.is_like(finding)) {
            Some(other) => other.place += &format!(", {}", finding.place),
            None => merged.push(finding.clone()),
        }
    }
    merged
}

/// A level as its rank, the worst first, and its word.
fn ranked(level: Level) -> (u8, &'static str) {
    match level {
        Level::Danger => (0, DANGER),
        Level::Ok => (2, "ok"),
        _ => (1, WARNING),
    }
}

fn summary(dangers: usize, warnings: usize) -> String {
    let some = |count: usize, what: &str| {
        let plural = if count == 1 { "" } else { "s" };
        (count > 0).then(|| format!("{count} {what}{plural}"))
    };
    let parts = [some(dangers, "danger"), some(warnings, "warning")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "all is well".to_owned() } else { parts.join(" and ") }
}

/// Prints a finding in one line, then the risk and the remedy.
fn print_finding(finding: &FindingView) -> Result<(), Failure> {
    let (level, place) = (finding.level, escaped(&finding.place));
    print(format_args!("{level:<8} {place}: {}", escaped(&finding.found)))?;
    for (title, text) in [("risk", &finding.risk), ("remedy", &finding.remedy)] {
        if !text.is_empty() {
            print(format_args!("{:<8} {title}: {}", "", escaped(text)))?;
        }
    }
    Ok(())
}
