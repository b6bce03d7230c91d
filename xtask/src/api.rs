//! `cargo xtask api`: the public API of the published packages, as text in the tree. A change shows
//! in a review, or fails the suite.

use std::fs;

use public_api::Builder;

use crate::programs::counts;
use crate::run::{Outcome, Run, root};

/// The packages that others build on.
pub(crate) const PUBLISHED: [&str; 4] =
    ["leasehold", "leasehold-conformance", "leasehold-core", "leasehold-data"];

/// The directory of the texts, one file per package, and the directory of those that are checked.
const DIRECTORY: &str = "api";
const CHECKED: &str = "target/api";

/// Where `xtask/rustdoc.sh` writes the documentation of each library.
const JSON: &str = "target/json";

/// Implementations that nearly every type has, and that no reader looks for.
const USUAL: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::",
];

/// Writes the API of every published package into the tree.
pub(crate) fn update() -> Outcome {
    document().and_then(|_| write(DIRECTORY))
}

/// Tests the examples in the documentation, builds it without a warning, and compares the API of
/// every published package with the text in the tree. Returns the counts of the tests.
pub(crate) fn check() -> Outcome<[u64; 3]> {
    let counts = document()?;
    write(CHECKED)?;
    // The API of the Python package is compared where that package is installed.
    Run::program("diff", &["--recursive", "--unified=0", "--exclude=*.pyi", DIRECTORY, CHECKED])
        .show()
        .map_err(|_| "the public API has changed: if it shall, run `cargo xtask api`".to_owned())?;
    Ok(counts)
}

/// Tests the examples of every library, and writes its documentation as JSON.
fn document() -> Outcome<[u64; 3]> {
    let words = ["test", "--doc", "--workspace", "--all-features", "--locked"];
    let rustdoc = root().join("xtask/rustdoc.sh");
    let run = Run::cargo(&words).for_tests().with("RUSTDOC", &rustdoc.to_string_lossy());
    let (text, succeeded) = run.with("LEASEHOLD_JSON", JSON).read()?;
    print!("{text}");
    if succeeded { Ok(counts(&text)) } else { Err("an example, or the documentation".to_owned()) }
}

/// Writes the API of every published package.
fn write(directory: &str) -> Outcome {
    for package in PUBLISHED {
        let json = format!("{JSON}/{}.json", package.replace('-', "_"));
        let api = Builder::from_rustdoc_json(root().join(json));
        let api = api.omit_blanket_impls(true).build();
        let api = api.map_err(|error| format!("{package}: {error}"))?;
        let lines = api.items().map(ToString::to_string);
        let lines = lines.filter(|line| {
            !(line.starts_with("impl") && USUAL.iter().any(|usual| line.contains(usual)))
        });
        let text: String = lines.map(|line| line + "\n").collect();
        let path = root().join(directory).join(format!("{package}.txt"));
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_package_has_its_file() {
        for package in PUBLISHED {
            assert!(root().join(DIRECTORY).join(format!("{package}.txt")).is_file(), "{package}");
        }
    }
}
