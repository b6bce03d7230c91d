//! `cargo xtask mutants core`: cargo-mutants changes `leasehold-core` here and there, and its unit
//! tests must fail. What they cannot notice is on a list, each with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::switched::Mutation;
use super::trial;
use crate::command::Run;
use crate::outcome::Outcome;

/// The list of those that may survive.
const ALLOWED: &str = "crates/leasehold-core/mutants.txt";

/// What is switched on to see that the tests find it: no part of what they test.
const BUGS: &str = "crates/leasehold-core/src/bugs.rs";

/// Where cargo-mutants says what came of it.
const OUTPUT: &str = "target/mutants";

/// Where it builds: the same place each time, so that all but the changed crate is built once.
const BUILT: &str = "target/mutants/built";

const MISSED: &str = "target/mutants/mutants.out/missed.txt";

/// How often each mutation is listed, without line and column.
type Mutations = BTreeMap<String, usize>;

/// Tries what cargo-mutants would change in these files, or in the whole crate.
pub(crate) fn run(root: &Path, files: &[&str]) -> Outcome {
    if !Run::cargo(root, &["mutants", "--version"]).works() {
        return Err("there is no cargo-mutants: `cargo install cargo-mutants --locked`".to_owned());
    }
    let files: Vec<&str> = files.iter().flat_map(|file| ["--file", file]).collect();
    let list = ["mutants", "--list", "--json", "--package", "leasehold-core", "--exclude", BUGS];
    let list = Run::cargo(root, &[&list, &files[..]].concat()).read()?;
    let all: Vec<Mutation> =
        serde_json::from_str(&list).map_err(|error| format!("cargo mutants --list: {error}"))?;
    let names: Vec<String> = all.iter().map(|mutation| without_place(&mutation.name)).collect();
    let (switched, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Mutation::can_be_switched);
    let built = root.join(BUILT);
    let tried = trial::run(root, &built, &switched)?;
    let missed = tried.missed.iter().map(|number| switched[number - 1].name.clone());
    let mut missed: Vec<String> = missed.collect();
    if !others.is_empty() {
        missed.extend(one_by_one(root, &built, &others)?);
    }
    eprintln!(
        "{} mutations, {} of them one by one; of the others, {} do not compile; {} survive",
        names.len(),
        others.len(),
        tried.uncompiled.len(),
        missed.len()
    );
    let allowed = fs::read_to_string(root.join(ALLOWED));
    let allowed = listed(&allowed.map_err(|error| format!("{ALLOWED}: {error}"))?)?;
    let wrong = compare(&mutations(&missed.join("\n")), &allowed, &names);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// Has cargo-mutants try these one by one, and gives what survives.
fn one_by_one(root: &Path, built: &Path, mutations: &[Mutation]) -> Outcome<Vec<String>> {
    let pattern = |one: &Mutation| one.name.replace(|c: char| !c.is_ascii_alphanumeric(), ".");
    let names: Vec<String> = mutations.iter().map(|one| format!("^{}$", pattern(one))).collect();
    let begin = ["mutants", "--package", "leasehold-core", "--output", OUTPUT, "--no-shuffle"];
    let limits = ["--profile", "mutants", "--timeout", "120", "--baseline", "skip"];
    let which = ["--re", &names.join("|"), "--features", "serde", "--cargo-arg=--lib"];
    let run = Run::cargo(root, &[&begin[..], &limits, &which].concat());
    let ran = run.with("CARGO_TARGET_DIR", &built.to_string_lossy()).show();
    let missed = fs::read_to_string(root.join(MISSED));
    let missed = missed.map_err(|error| ran.err().unwrap_or(format!("{MISSED}: {error}")))?;
    Ok(missed.lines().map(str::to_owned).collect())
}

/// `src/a.rs:12:3: replace …` without the numbers, which any edit changes.
fn without_place(line: &str) -> String {
    let mut parts = line.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(what)) => format!("{file}:{what}"),
        _ => line.to_owned(),
    }
}

fn mutations(text: &str) -> Mutations {
    let mut mutations = Mutations::new();
    for line in text.lines() {
        *mutations.entry(without_place(line)).or_default() += 1;
    }
    mutations
}

/// What is on the list. A reason stands above those that it is for, behind `#`.
fn listed(text: &str) -> Outcome<Mutations> {
    let (mut mutations, mut has_reason) = (Mutations::new(), false);
    for line in text.lines().map(str::trim) {
        if line.is_empty() {
            has_reason = false;
        } else if line.starts_with('#') {
            has_reason = true;
        } else if has_reason {
            *mutations.entry(line.to_owned()).or_default() += 1;
        } else {
            return Err(format!("{ALLOWED}: no reason stands above `{line}`"));
        }
    }
    Ok(mutations)
}

/// Survivors that are not on the list, and what is on it and does not survive although it, or
/// something else in its file, was tried.
fn compare(missed: &Mutations, allowed: &Mutations, tried: &[String]) -> Vec<String> {
    let count = |of: &Mutations, what: &str| of.get(what).copied().unwrap_or_default();
    let file_of = |what: &str| what.split(':').next().unwrap_or_default().to_owned();
    let new = missed.iter().filter(|(what, times)| **times > count(allowed, what));
    let new = new.map(|(what, _)| format!("no test notices: {what}"));
    let was_tried = |what: &str| tried.iter().any(|other| file_of(other) == file_of(what));
    let gone = allowed.iter().filter(|(what, times)| **times > count(missed, what));
    let gone = gone.filter(|(what, _)| was_tried(what));
    let gone = gone.map(|(what, _)| format!("{ALLOWED}: it is noticed, or gone: {what}"));
    new.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: &str = "src/step.rs:67:59: replace + with - in Step::mint";

    #[test]
    fn what_survives_must_be_on_the_list_and_what_is_on_it_must_survive() {
        let missed = mutations(STEP);
        let allowed = listed("# Why.\nsrc/step.rs: replace + with - in Step::mint\n").unwrap();
        let tried = [without_place(STEP)];
        assert_eq!(compare(&missed, &allowed, &tried), [""; 0]);
        let unlisted = compare(&missed, &Mutations::new(), &tried);
        assert_eq!(unlisted, ["no test notices: src/step.rs: replace + with - in Step::mint"]);
        assert_eq!(compare(&Mutations::new(), &allowed, &tried).len(), 1);
        assert_eq!(compare(&Mutations::new(), &allowed, &[]), [""; 0], "another file was tried");
    }

    #[test]
    fn each_of_several_in_one_function_counts() {
        let twice = mutations(&format!("{STEP}\n{}", STEP.replace("67", "68")));
        let once = listed("# Why.\nsrc/step.rs: replace + with - in Step::mint\n").unwrap();
        assert_eq!(compare(&twice, &once, &[]).len(), 1);
    }

    #[test]
    fn a_list_without_reasons_is_refused() {
        assert!(listed("src/step.rs: replace + with -\n").is_err());
        assert!(listed("# Why.\na: b\n\nc: d\n").unwrap_err().contains("c: d"));
    }
}
