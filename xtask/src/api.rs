//! `cargo xtask api`: the public API of what is published, as text in the tree. A change of it is
//! seen in a review, or else fails the suite.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use public_api::Builder;

use crate::command::Run;
use crate::outcome::Outcome;
use crate::packages;

/// The packages that others build on.
const PUBLISHED: [&str; 4] =
    ["leasehold", "leasehold-conformance", "leasehold-core", "leasehold-data"];

/// Where the text is: a file for each package.
const DIRECTORY: &str = "api";

/// The rustdoc that may write JSON.
const RUSTDOC: &str = "xtask/rustdoc-json.sh";

/// Implementations that nearly every type has, and that nobody asks for.
const USUAL: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::",
];

/// Writes the API of every published package.
pub(crate) fn update(root: &Path) -> Outcome {
    for (path, text) in texts(root)? {
        let path = root.join(path);
        let made = fs::create_dir_all(root.join(DIRECTORY)).and_then(|()| fs::write(&path, text));
        made.map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Compares the API of every published package with what is in the tree.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut differences = Vec::new();
    for (path, text) in texts(root)? {
        let written = fs::read_to_string(root.join(&path)).unwrap_or_default();
        differences.extend(difference(&written, &text).map(|lines| format!("{path}:\n{lines}")));
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the public API has changed: if it shall, run `cargo xtask api`\n{}",
            differences.join("")
        )),
    }
}

/// The API of every published package, and the file it belongs in.
fn texts(root: &Path) -> Outcome<Vec<(String, String)>> {
    // All packages, so that they are built with the features that all other steps build them with.
    let arguments = ["doc", "--workspace", "--lib", "--no-deps", "--all-features", "--locked"];
    let flags = "-Z unstable-options --output-format json";
    let rustdoc = root.join(RUSTDOC);
    let documented = Run::cargo(root, &arguments).with("RUSTDOCFLAGS", flags);
    documented.with("RUSTDOC", &rustdoc.to_string_lossy()).show()?;
    let target = packages::target_directory(root)?;
    let text = |package: &str| {
        let json = target.join("doc").join(format!("{}.json", package.replace('-', "_")));
        let api = Builder::from_rustdoc_json(&json).omit_blanket_impls(true).build();
        let api = api.map_err(|error| format!("{}: {error}", json.display()))?;
        let lines = api.items().map(ToString::to_string).filter(|line| !is_usual(line));
        let lines: String = lines.map(|line| line + "\n").collect();
        Ok((format!("{DIRECTORY}/{package}.txt"), lines))
    };
    PUBLISHED.into_iter().map(text).collect()
}

fn is_usual(line: &str) -> bool {
    line.starts_with("impl") && USUAL.iter().any(|implemented| line.contains(implemented))
}

/// The lines that have gone and those that have come, if there are any.
fn difference(old: &str, new: &str) -> Option<String> {
    let lines = |text| str::lines(text).collect::<BTreeSet<&str>>();
    let (old_lines, new_lines) = (lines(old), lines(new));
    let gone = old_lines.difference(&new_lines).map(|line| format!("- {line}\n"));
    let come = new_lines.difference(&old_lines).map(|line| format!("+ {line}\n"));
    (old != new).then(|| gone.chain(come).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_lines_that_have_gone_and_come() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(difference("a\nb\n", "b\nc\n").as_deref(), Some("- a\n+ c\n"));
        assert_eq!(difference("a\nb\n", "b\na\n").as_deref(), Some(""), "the order counts");
    }

    #[test]
    fn implementations_that_nobody_asks_for_are_left_out_and_send_and_sync_are_not() {
        assert!(is_usual("impl<T> core::marker::Unpin for leasehold::Lost where T: Send"));
        assert!(is_usual("impl !core::panic::unwind_safe::UnwindSafe for leasehold::Lost"));
        assert!(!is_usual("impl core::marker::Send for leasehold::Lost"));
        assert!(!is_usual("pub fn leasehold::f(core::marker::Unpin)"));
    }

    #[test]
    fn every_published_package_has_its_file() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for package in PUBLISHED {
            assert!(root.join(DIRECTORY).join(format!("{package}.txt")).is_file(), "{package}");
        }
    }
}
