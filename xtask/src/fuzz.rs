//! `cargo xtask fuzz`: feeds what reads bytes from outside, for as long as one likes.
//!
//! The flags are those of cargo-fuzz without a sanitizer: there is no `unsafe` of ours to sanitize,
//! and with them the pinned toolchain will do. What reaches something new is kept in
//! `target/fuzz/corpus`, for the next run; `keep` takes into `fuzz/corpus` as few of both as reach
//! the same.

use std::fs;
use std::io::Error;
use std::path::Path;

use crate::command::Run;
use crate::outcome::Outcome;

/// How the code counts what was reached and compared.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    -Cllvm-args=-sanitizer-coverage-stack-depth";

/// The package, its corpus in the tree, and where everything else is.
const MANIFEST: &str = "fuzz/Cargo.toml";
const CORPUS: &str = "fuzz/corpus";
const BUILT: &str = "target/fuzz";

/// Where the programs are.
const PROGRAMS: &str = "fuzz/fuzz_targets";

/// How long each target is fed where nothing is said.
const DEFAULT_SPAN: &str = "10s";

/// The longest input that is tried, and the longest that is kept in the tree.
const LONGEST: &str = "-max_len=4096";
const LONGEST_KEPT: &str = "-max_len=512";

/// What the targets print themselves is thrown away.
const QUIET: &str = "-close_fd_mask=1";

/// Feeds the targets that are named, or all; a span may come first. One that fails does not keep
/// the others from being fed.
pub(crate) fn run(root: &Path, how: &[&str]) -> Outcome {
    let (span, names) = split(how);
    let limit = format!("-max_total_time={}", seconds(span)?);
    let names = targets(root, names)?;
    let programs = build(root, &names)?;
    let mut failures = Vec::new();
    for name in names {
        let (found, artifacts) = (format!("{BUILT}/corpus/{name}"), format!("{BUILT}/artifacts"));
        for directory in [&found, &artifacts] {
            make(&root.join(directory))?;
        }
        let artifact = format!("-artifact_prefix={artifacts}/{name}-");
        let options = [&*limit, &artifact, LONGEST, "-timeout=20", QUIET];
        let corpora = [&*found, &format!("{CORPUS}/{name}")];
        let words = [&options[..], &corpora].concat();
        let fed = Run::program(&format!("{programs}/{name}"), &words).within(root).show();
        failures.extend(fed.err().map(|why| format!("{name}: {why}: its input is in {artifacts}")));
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
}

/// Leaves in the tree as few inputs as reach what those there and those found reach.
pub(crate) fn keep(root: &Path, names: &[&str]) -> Outcome {
    let names = targets(root, names)?;
    let programs = build(root, &names)?;
    for name in names {
        let (kept, found) = (format!("{CORPUS}/{name}"), format!("{BUILT}/corpus/{name}"));
        let smallest = format!("{BUILT}/smallest/{name}");
        make(&root.join(&found))?;
        begin(&root.join(&kept), &root.join(&smallest))?;
        let words = ["-merge=1", LONGEST_KEPT, QUIET, &smallest, &kept, &found];
        Run::program(&format!("{programs}/{name}"), &words).within(root).show()?;
        replace(&root.join(kept), &root.join(smallest))?;
    }
    Ok(())
}

/// Whether the package is formatted and its lock file is that of its manifest: the suite does not
/// build it.
pub(crate) fn check(root: &Path) -> Outcome {
    Run::cargo(root, &["fmt", "--check", "--manifest-path", MANIFEST]).show()?;
    let resolve = ["metadata", "--locked", "--format-version=1", "--manifest-path", MANIFEST];
    Run::cargo(root, &resolve).read().map(drop)
}

/// Makes a corpus of those inputs that somebody has named: each of them has made a target fail
/// once, or is where it begins, and stays.
fn begin(kept: &Path, smallest: &Path) -> Outcome {
    if smallest.exists() {
        fs::remove_dir_all(smallest).map_err(|error| failed(smallest, &error))?;
    }
    make(smallest)?;
    entries(kept)?
        .iter()
        .filter(|name| !is_hash(name))
        .try_for_each(|name| copy(name, kept, smallest))
}

/// Puts one corpus in the place of another.
fn replace(kept: &Path, smallest: &Path) -> Outcome {
    for name in entries(kept)? {
        let path = kept.join(name);
        fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
    }
    entries(smallest)?.iter().try_for_each(|name| copy(name, smallest, kept))
}

fn copy(name: &str, from: &Path, to: &Path) -> Outcome {
    let to = to.join(name);
    fs::copy(from.join(name), &to).map(drop).map_err(|error| failed(&to, &error))
}

/// Whether libFuzzer has given this name: the SHA-1 of the bytes.
fn is_hash(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn make(directory: &Path) -> Outcome {
    fs::create_dir_all(directory).map_err(|error| failed(directory, &error))
}

/// The names in a directory, sorted.
fn entries(directory: &Path) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(directory).map_err(|error| failed(directory, &error))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

fn failed(path: &Path, error: &Error) -> String {
    format!("{}: {error}", path.display())
}

fn split<'a, 'b>(how: &'b [&'a str]) -> (&'a str, &'b [&'a str]) {
    match how {
        [span, names @ ..] if span.starts_with(|c: char| c.is_ascii_digit()) => (span, names),
        names => (DEFAULT_SPAN, names),
    }
}

/// How many seconds a span has: `90s`, `10m`, `2h`.
fn seconds(span: &str) -> Outcome<u64> {
    let digits = span.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &span[digits.len()..] {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3600),
        _ => None,
    };
    let seconds = digits.parse::<u64>().ok().zip(unit).map(|(number, unit)| number * unit);
    seconds.ok_or_else(|| format!("fuzz: {span} is no span: write 90s, 10m or 2h"))
}

/// The targets that are named, or all.
fn targets(root: &Path, names: &[&str]) -> Outcome<Vec<String>> {
    let files = entries(&root.join(PROGRAMS))?.into_iter();
    let mut all: Vec<_> = files.filter_map(|file| Some(file.strip_suffix(".rs")?.into())).collect();
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|known| known == *name)) {
        return Err(format!("there is no target {unknown}: there are {}", all.join(", ")));
    }
    all.retain(|name: &String| names.is_empty() || names.contains(&name.as_str()));
    Ok(all)
}

/// Builds the programs of these targets, and says where they are.
fn build(root: &Path, names: &[String]) -> Outcome<String> {
    let version = Run::program("rustc", &["-vV"]).within(root).read()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or("`rustc -vV` names no host")?;
    let begin = ["build", "--release", "--locked", "--manifest-path", MANIFEST];
    // With a target named, build scripts and macros are not built with these flags.
    let place = ["--target", host, "--target-dir", BUILT];
    let programs: Vec<&str> = names.iter().flat_map(|name| ["--bin", name]).collect();
    let arguments = [&begin[..], &place, &programs].concat();
    Run::cargo(root, &arguments).with("RUSTFLAGS", FLAGS).show()?;
    Ok(format!("{BUILT}/{host}/release"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_may_come_before_the_targets() {
        assert_eq!(split(&["60s", "reply"]), ("60s", &["reply"][..]));
        assert_eq!(split(&["reply", "text"]), (DEFAULT_SPAN, &["reply", "text"][..]));
        assert_eq!(split(&[]), (DEFAULT_SPAN, &[][..]));
    }

    #[test]
    fn a_span_has_a_number_and_a_unit() {
        assert_eq!(["90s", "10m", "2h"].map(|span| seconds(span).unwrap()), [90, 600, 7200]);
        for wrong in ["90", "s", "1.5m", "2d", ""] {
            assert!(seconds(wrong).unwrap_err().contains("write 90s"), "{wrong}");
        }
    }

    #[test]
    fn every_target_has_a_program_and_a_corpus() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let manifest = fs::read_to_string(root.join(MANIFEST)).unwrap();
        let all = targets(&root, &[]).unwrap();
        for name in &all {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        }
        assert_eq!(entries(&root.join(CORPUS)).unwrap(), all);
        assert_eq!(manifest.matches("[[bin]]").count(), all.len());
        assert!(targets(&root, &["no_such_target"]).unwrap_err().contains("reply"));
    }

    #[test]
    fn what_somebody_has_named_stays_and_what_is_no_longer_needed_goes() {
        let place = tempfile::tempdir().unwrap();
        let [kept, smallest] = ["kept", "smallest"].map(|name| place.path().join(name));
        let hashes = [0, 1, 2].map(|number| format!("{number:040x}"));
        make(&kept).unwrap();
        for name in ["named", &hashes[0], &hashes[1]] {
            fs::write(kept.join(name), name).unwrap();
        }
        begin(&kept, &smallest).unwrap();
        assert_eq!(entries(&smallest).unwrap(), ["named"]);
        for name in &hashes[1..] {
            fs::write(smallest.join(name), name).unwrap();
        }
        replace(&kept, &smallest).unwrap();
        assert_eq!(entries(&kept).unwrap(), [&hashes[1], &hashes[2], "named"]);
    }
}
