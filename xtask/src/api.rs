//! `cargo xtask api`: the public API of the published packages, as text in the tree. A change shows
//! in a review, or fails the suite. These texts also show whether each waiting type has a type of
//! the same name in `blocking`, with methods of the same names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use public_api::Builder;

use crate::run::{Outcome, Run, root};

/// The packages that others build on.
pub(crate) const PUBLISHED: [&str; 4] =
    ["leasehold", "leasehold-conformance", "leasehold-core", "leasehold-data"];

/// The directory of the texts, one file per package, and the directory of those that are checked.
const DIRECTORY: &str = "api";
const CHECKED: &str = "target/api";

/// Implementations that nearly every type has, and that no reader looks for.
const USUAL: [&str; 5] = [
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::Unpin",
    "core::marker::UnsafeUnpin",
    "core::panic::unwind_safe::",
];

/// Modules that both forms share: the parts of stores, and the values that stores get.
const SHARED: [&str; 2] = ["store", "model"];

/// The types and methods that only one form has, and the reason.
const ALONE: [(&str, &str); 6] = [
    ("leasehold::Guard::lost", "it is a future: a thread has `loss` and `on_lost`"),
    ("leasehold::election::Observation::poll_next", "it is a stream: a thread has `next`"),
    ("leasehold::election::Observation::drop", "what it holds is dropped with it"),
    ("leasehold::election::Leadership::guard", "what it tells, the leadership tells itself"),
    ("leasehold::election::Leadership::lost", "as that of a guard"),
    ("leasehold_data::Batcher", "it gathers what the tasks of one runtime ask for"),
];

/// Writes the API of every published package into the tree.
pub(crate) fn update() -> Outcome {
    write(DIRECTORY)
}

/// Builds all pages of documentation without a warning, and compares the API of every published
/// package with the text in the tree.
pub(crate) fn check() -> Outcome {
    write(CHECKED)?;
    // The API of the Python package is compared where that package is installed.
    Run::program("diff", &["--recursive", "--unified=0", "--exclude=*.pyi", DIRECTORY, CHECKED])
        .show()
        .map_err(|_| "the public API has changed: if it shall, run `cargo xtask api`".to_owned())?;
    let texts = PUBLISHED.map(|package| {
        let path = root().join(DIRECTORY).join(format!("{package}.txt"));
        fs::read_to_string(path).unwrap_or_default()
    });
    let wrong = without_blocking_form(&texts);
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Writes the API of every published package.
fn write(directory: &str) -> Outcome {
    // All packages, so that they are built with the features that all other steps build them with.
    let words = ["doc", "--workspace", "--lib", "--no-deps", "--all-features", "--locked"];
    let rustdoc = root().join("xtask/rustdoc-json.sh");
    Run::cargo(&words)
        .with("RUSTDOCFLAGS", "--deny warnings -Z unstable-options --output-format json")
        .with("RUSTDOC", &rustdoc.to_string_lossy())
        .show()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    for package in PUBLISHED {
        let json = Path::new("doc").join(format!("{}.json", package.replace('-', "_")));
        let api = Builder::from_rustdoc_json(root().join(&target).join(json));
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

/// The methods of a type, and whether one of them is async.
type Types = BTreeMap<String, (BTreeSet<String>, bool)>;

/// The types and methods without a blocking form, in the packages that have such a form.
fn without_blocking_form(texts: &[String]) -> Vec<String> {
    let mut missing = BTreeSet::new();
    for text in texts.iter().filter(|text| text.contains("::blocking::")) {
        let types = types(text);
        let module = |path: &str| path.split("::").nth(1).unwrap_or_default().to_owned();
        let needs_one =
            |path: &str| module(path) != "blocking" && !SHARED.contains(&&*module(path));
        for (path, (methods, waits)) in types.iter().filter(|(path, _)| needs_one(path)) {
            let names = path.split_once("::").zip(path.rsplit_once("::"));
            let Some(((package, _), (_, name))) = names else { continue };
            match types.get(&format!("{package}::blocking::{name}")) {
                Some((others, _)) => missing
                    .extend(methods.difference(others).map(|method| format!("{path}::{method}"))),
                None if *waits => drop(missing.insert(path.clone())),
                None => {}
            }
        }
    }
    let alone: BTreeSet<String> = ALONE.iter().map(|(what, _)| (*what).to_owned()).collect();
    let wrong = missing.difference(&alone).map(|what| format!("`{what}` has no blocking form"));
    let stale = alone.difference(&missing).map(|what| format!("ALONE: `{what}` is not alone"));
    wrong.chain(stale).collect()
}

/// The types of a package that have methods.
fn types(text: &str) -> Types {
    let mut types = Types::new();
    for line in text.lines().filter(|line| line.starts_with("pub ")) {
        let Some((before, signature)) = line.split_once("fn ") else { continue };
        let path = without_generics(signature);
        let path = path.split('(').next().unwrap_or_default();
        let Some((owner, method)) = path.rsplit_once("::") else { continue };
        if owner.rsplit("::").next().is_some_and(|name| name.starts_with(char::is_uppercase)) {
            let (methods, waits) = types.entry(owner.to_owned()).or_default();
            methods.insert(method.to_owned());
            *waits |= before.contains("async ");
        }
    }
    types
}

fn without_generics(signature: &str) -> String {
    let mut depth = 0_i32;
    let outside = |character: &char| {
        depth += i32::from(*character == '<');
        let is_outside = depth == 0;
        depth -= i32::from(*character == '>');
        is_outside
    };
    signature.chars().filter(outside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "\
        pub fn a::blocking::Lock::take(&self) -> bool\n\
        pub fn a::blocking::Lock::name(&self) -> &str\n\
        pub async fn a::Lock::take(&self) -> bool\n\
        pub fn a::Lock::name(&self) -> &str\n\
        pub async fn a::store::File::open() -> Self\n\
        pub async fn a::open(url: &str)\n\
        pub fn a::Name::len(&self) -> usize\n";

    #[test]
    fn what_a_form_without_async_lacks_is_named() {
        let found = |more: &str| without_blocking_form(&[format!("{WHOLE}{more}")]);
        let nothing = found("");
        assert_eq!(nothing.len(), ALONE.len(), "what is not there is not alone: {nothing:?}");
        let method = found("pub const fn a::Lock::ttl(self) -> Self\n");
        assert!(method[0].contains("a::Lock::ttl"), "a method, async or not: {method:?}");
        let generic = found("pub async fn a::Many<T, R>::run<U: Into<T>>(&self, U)\n");
        assert!(generic[0].contains("a::Many"), "a type: {generic:?}");
    }

    #[test]
    fn every_published_package_has_its_file() {
        for package in PUBLISHED {
            assert!(root().join(DIRECTORY).join(format!("{package}.txt")).is_file(), "{package}");
        }
    }
}
