//! `cargo xtask mutants core`: cargo-mutants changes `leasehold-core` here and there, and its unit
//! tests must fail. What they cannot notice is on a list, each with its reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::command::Run;
use crate::outcome::Outcome;

/// The list of those that may survive.
const ALLOWED: &str = "crates/leasehold-core/mutants.txt";

/// Where the decisions are: what is not here is plain data, or text.
const FILES: [&str; 6] = [
    "crates/leasehold-core/src/model/*.rs",
    "crates/leasehold-core/src/quorum/*.rs",
    "crates/leasehold-core/src/lease.rs",
    "crates/leasehold-core/src/renewal.rs",
    "crates/leasehold-core/src/time.rs",
    "crates/leasehold-core/src/token.rs",
];

/// Where cargo-mutants says what came of it.
const OUTPUT: &str = "target/mutants";

/// Where it builds: the same place each time, so that all but the changed crate is built once.
const BUILT: &str = "target/mutants/built";

const MISSED: &str = "target/mutants/mutants.out/missed.txt";
const TRIED: [&str; 3] = ["caught.txt", "missed.txt", "timeout.txt"];

/// How often each mutation is listed, without line and column.
type Mutations = BTreeMap<String, usize>;

/// Changes these files, or all that decide something; behind `--shard 3/24`, one of so many parts
/// of the changes, each of which has some of every file.
pub(crate) fn run(root: &Path, how: &[&str]) -> Outcome {
    let (shard, files) = match how {
        ["--shard", shard, files @ ..] => (Some(*shard), files),
        files => (None, files),
    };
    if !Run::cargo(root, &["mutants", "--version"]).works() {
        return Err("there is no cargo-mutants: `cargo install cargo-mutants --locked`".to_owned());
    }
    let files = if files.is_empty() { &FILES[..] } else { files };
    fs::create_dir_all(root.join(OUTPUT)).map_err(|error| format!("{OUTPUT}: {error}"))?;
    let begin = ["mutants", "--package", "leasehold-core", "--output", OUTPUT, "--no-shuffle"];
    // What is compiled so often is compiled quickly.
    let limits = ["--profile", "mutants", "--timeout", "120", "--baseline", "run"];
    let named: Vec<&str> = files.iter().flat_map(|file| ["--file", file]).collect();
    let part = shard.map(|shard| ["--shard", shard, "--sharding", "round-robin"]);
    let part = part.as_ref().map(|words| &words[..]).unwrap_or_default();
    let tests = ["--cargo-arg=--lib"];
    let run = Run::cargo(root, &[&begin[..], &limits, part, &named, &tests].concat());
    let ran = run.with("CARGO_TARGET_DIR", &root.join(BUILT).to_string_lossy()).show();
    let read = |path: &str| fs::read_to_string(root.join(path));
    let missed = read(MISSED).map_err(|error| ran.err().unwrap_or(format!("{MISSED}: {error}")))?;
    // A part says nothing of what is on the list: the mutation may be in another one.
    let whole = if shard.is_none() { &TRIED[..] } else { &[] };
    let tried: Vec<String> = whole
        .iter()
        .filter_map(|name| read(&format!("{OUTPUT}/mutants.out/{name}")).ok())
        .flat_map(|text| text.lines().map(without_place).collect::<Vec<_>>())
        .collect();
    let allowed = read(ALLOWED).map_err(|error| format!("{ALLOWED}: {error}"))?;
    let wrong = compare(&mutations(&missed), &listed(&allowed)?, &tried);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
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
