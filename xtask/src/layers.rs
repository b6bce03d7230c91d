//! `cargo xtask layers`: a module imports only from the layers below its own, a crate only from
//! the crates below it. ARCHITECTURE.md shows the same tables as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Outcome;
use crate::source::{Source, line_of, words};
use crate::tree::{self, File};

/// The modules of one package, or of one module of it, from the lowest layer to the highest.
/// Modules of one layer do not import each other, modules below a name that stands here may. `self`
/// stands for the module whose own modules these are; without it, that is above them all.
struct Layers {
    package: &'static str,
    /// The module whose own modules these are; none for those of the whole package.
    within: &'static [&'static str],
    rows: &'static [&'static [&'static str]],
}

const LAYERS: [Layers; 4] = [
    Layers {
        package: "crates/leasehold-core",
        within: &[],
        rows: &[
            &["name"],
            &["text", "time", "token"],
            &["backoff", "holder"],
            &["lease", "options"],
            &["request"],
            &["error", "model", "renewal"],
            &["data", "quorum"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &[],
        rows: &[
            &["background", "clock", "event", "failures", "lost", "refusal"],
            &["store"],
            &["keeper", "poll_queue"],
            &["engine"],
            &["admin", "guard", "wait"],
            &["adopt", "multi", "wait_free"],
            &["lock"],
            &["batch", "data", "election", "fence", "once", "rwlock", "semaphore"],
            &["client"],
            &["blocking"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store"],
        rows: &[
            &["data_store", "finding", "traits"],
            &["clock_sample"],
            &["clocked"],
            &["file", "memory", "quorum", "redis"],
            &["router"],
        ],
    },
    Layers {
        package: "crates/leasehold",
        within: &["store", "redis"],
        rows: &[
            &["rights", "url", "warnings"],
            &["connection"],
            &["layout"],
            &["delifeq", "durability"],
            &["topology"],
            &["list", "node_list", "pubsub"],
            &["doctor"],
            &["self"],
            &["data", "opening", "quorum_node"],
        ],
    },
];

/// What each package may depend on of the others, and what besides in its tests.
const CRATES: [(&str, &[&str], &[&str]); 10] = [
    ("benches", &["leasehold", "leasehold-core", "leasehold-testkit"], &[]),
    ("crates/leasehold", &["leasehold-core"], &[]),
    ("crates/leasehold-cli", &["leasehold", "leasehold-core"], &["leasehold-testkit"]),
    ("crates/leasehold-conformance", &["leasehold"], &[]),
    ("crates/leasehold-core", &[], &[]),
    ("crates/leasehold-testkit", &["leasehold", "leasehold-conformance", "leasehold-core"], &[]),
    ("examples/flash_sale", &["leasehold", "leasehold-testkit"], &[]),
    ("examples/own_store", &["leasehold"], &["leasehold-conformance"]),
    ("tests", &["leasehold", "leasehold-cli", "leasehold-core", "leasehold-testkit"], &[]),
    ("xtask", &[], &[]),
];

/// Checks the whole tree.
pub(crate) fn run(root: &Path) -> Outcome {
    let files = tree::files(root)?;
    let mut wrong = Vec::new();
    for layers in &LAYERS {
        wrong.extend(check_modules(layers, &files));
    }
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        wrong.extend(check_crate(file));
    }
    for line in &wrong {
        eprintln!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("layers: {count} imports go the wrong way")),
    }
}

fn check_modules(layers: &Layers, files: &[File]) -> Vec<String> {
    let files: Vec<(Vec<&str>, &File)> = files
        .iter()
        .filter(|file| file.is("rs"))
        .filter_map(|file| Some((module(file.below_source_of(layers.package)?), file)))
        .collect();
    let modules: BTreeSet<&[&str]> = files.iter().map(|(module, _)| module.as_slice()).collect();
    let front: BTreeMap<_, _> =
        files.iter().flat_map(|(own, file)| front_door(own, file)).collect();
    let mut wrong = Vec::new();
    for (from, file) in &files {
        // The root joins the parts, and a file of tests may look at all of them.
        let Some(inside) = layers.inside(from) else { continue };
        if inside.is_empty() || from.last() == Some(&"tests") {
            continue;
        }
        let Some(own) = layers.find(inside) else {
            let (path, module) = (&file.path, from.join("::"));
            wrong.push(format!("{path}: `{module}` has no layer: give it one in xtask layers.rs"));
            continue;
        };
        let code = Source::new(&file.text).without_tests();
        for (at, path) in paths(&code, from) {
            let line = format!("{}:{}", file.path, line_of(&code, at));
            let path = resolve(&path, &front);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let to = (0..=path.len()).rev().map(|end| &path[..end]);
            let Some(to) = to.into_iter().find(|prefix| modules.contains(prefix)) else { continue };
            if to.is_empty() || to.starts_with(from) {
                continue; // the root's own items; a module joins its children
            }
            let Some(inside) = layers.inside(to) else { continue };
            let may_import = match layers.find(inside) {
                Some(other) => own.may_import(&other),
                None => layers.within.is_empty() || !inside.is_empty(),
            };
            if !may_import {
                let (from, to) = (from.join("::"), to.join("::"));
                wrong.push(format!("{line}: `{from}` must not import `{to}`: it is not below it"));
            }
        }
    }
    wrong
}

/// A module's place: its row, and the name that stands there for it.
struct Place<'a> {
    row: usize,
    part: &'a str,
}

impl Place<'_> {
    fn may_import(&self, other: &Self) -> bool {
        other.row < self.row || self.part == other.part
    }
}

impl Layers {
    /// The path of a module below the one whose modules these are.
    fn inside<'a>(&self, module: &'a [&'a str]) -> Option<&'a [&'a str]> {
        module.strip_prefix(self.within)
    }

    fn find<'a>(&self, module: &[&'a str]) -> Option<Place<'a>> {
        let part = module.first().copied().unwrap_or("self");
        let row = self.rows.iter().position(|names| names.contains(&part))?;
        Some(Place { row, part })
    }
}

/// The module that a file below `src/` holds.
fn module(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| !matches!(*part, "lib" | "main")).collect()
}

/// Names that a module with modules of its own has from elsewhere, by their path in it, and where
/// they live.
fn front_door(own: &[&str], file: &File) -> Vec<(Vec<String>, Vec<String>)> {
    if !file.path.ends_with("/mod.rs") && !own.is_empty() {
        return Vec::new();
    }
    let code = Source::new(&file.text).without_tests();
    let own: Vec<String> = own.iter().map(|part| (*part).to_owned()).collect();
    let elsewhere = paths(&code, &own.iter().map(String::as_str).collect::<Vec<_>>());
    let named = elsewhere.into_iter().filter_map(|(_, path)| {
        let name = path.last()?.clone();
        let as_seen: Vec<String> = own.iter().cloned().chain([name]).collect();
        (as_seen != path).then_some((as_seen, path))
    });
    named.collect()
}

/// Follows a path to the module in which what it names lives: what a module passes on is not its
/// own.
fn resolve(path: &[String], front: &BTreeMap<Vec<String>, Vec<String>>) -> Vec<String> {
    let mut path = path.to_vec();
    // A name may be passed on several times, but not in a circle.
    for _ in 0..path.len() + 4 {
        let passed_on = (1..=path.len()).find_map(|end| Some((end, front.get(&path[..end])?)));
        let Some((end, target)) = passed_on else { break };
        path = target.iter().chain(&path[end..]).cloned().collect();
    }
    path
}

/// Every path in the code that begins at the crate's root, at the module itself or above it, as
/// seen from the root; and where it stands.
fn paths(code: &str, from: &[&str]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    let mut previous_end = 0;
    for (at, word) in words(code) {
        let follows = code[previous_end..at].trim_end().ends_with("::");
        previous_end = at + word.len();
        if follows || !code[previous_end..].starts_with("::") {
            continue;
        }
        let mut base: Vec<String> = match word {
            "crate" => Vec::new(),
            "self" | "super" => from.iter().map(|part| (*part).to_owned()).collect(),
            _ => continue,
        };
        if word == "super" {
            base.pop();
        }
        let mut tree = code[previous_end + "::".len()..].trim_start();
        while let Some(rest) = tree.strip_prefix("super::") {
            base.pop();
            tree = rest;
        }
        expand(tree, &base, &mut |path| found.push((at, path)));
    }
    found
}

/// Walks one tree of a `use`, as in `a::{b, c::D}`; gives back the text behind it.
fn expand<'a>(tree: &'a str, base: &[String], found: &mut impl FnMut(Vec<String>)) -> &'a str {
    let tree = tree.trim_start();
    if let Some(mut rest) = tree.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            if let Some(end) = rest.strip_prefix('}') {
                return end;
            }
            let before = rest.len();
            rest = expand(rest, base, found);
            if rest.len() == before {
                return rest;
            }
        }
    }
    let Some((0, word)) = words(tree).next() else {
        found(base.to_vec()); // a glob, or something that is no path
        return tree.strip_prefix('*').unwrap_or(tree);
    };
    let mut path = base.to_vec();
    if word != "self" {
        path.push(word.to_owned());
    }
    let rest = &tree[word.len()..];
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, &path, found);
    }
    found(path);
    match rest.trim_start().strip_prefix("as ") {
        Some(alias) => {
            alias.trim_start().trim_start_matches(|c: char| c == '_' || c.is_alphanumeric())
        }
        None => rest,
    }
}

/// Checks what one package depends on.
fn check_crate(manifest: &File) -> Option<String> {
    let package = manifest.path.strip_suffix("/Cargo.toml")?;
    let Some((_, allowed, in_tests)) = CRATES.iter().find(|(name, ..)| *name == package) else {
        return Some(format!("{package}: not in the table of crates in xtask layers.rs"));
    };
    let mut section = "";
    for line in manifest.text.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if section.contains("dependencies")
            && name.starts_with("leasehold")
            && !allowed.contains(&name)
            && !(section == "[dev-dependencies]" && in_tests.contains(&name))
        {
            return Some(format!("{}: must not depend on {name}", manifest.path));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sample: &[(&str, &str)]) -> Vec<String> {
        let package = "crates/leasehold";
        let files: Vec<File> = sample
            .iter()
            .map(|(path, text)| File {
                path: format!("{package}/src/{path}"),
                text: (*text).to_owned(),
            })
            .collect();
        let layers = LAYERS.iter().filter(|layers| layers.package == package);
        layers.flat_map(|layers| check_modules(layers, &files)).collect()
    }

    #[test]
    fn an_import_from_above_fails_and_one_from_below_does_not() {
        let guard = ("guard.rs", "use crate::lock::Lock;");
        let lock = ("lock.rs", "use crate::{guard::Guard, engine};\nfn f() { super::guard::g() }");
        let wrong = check(&[guard, lock, ("engine.rs", ""), ("lib.rs", "")]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("guard.rs:1") && wrong[0].contains("`lock`"), "{wrong:?}");
    }

    #[test]
    fn stores_do_not_import_each_other_but_share_their_traits_and_their_own_parts() {
        let shared = ("store/mod.rs", "pub use self::traits::Store; pub fn connect() {}");
        let traits = ("store/traits.rs", "pub trait Store {}");
        let memory = ("store/memory.rs", "use super::Store; use super::redis::url;");
        let redis = ("store/redis/mod.rs", "mod url; use self::url::Url; use super::Store;");
        let url = ("store/redis/url.rs", "use super::super::Store; use super::topology;");
        let topology = ("store/redis/topology.rs", "use crate::store::redis::url::Url;");
        let wrong = check(&[shared, traits, memory, redis, url, topology]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("`store::memory` must not import `store::redis::url`"));
        assert!(wrong[1].contains("`store::redis::url` must not import `store::redis::topology`"));
    }

    #[test]
    fn a_part_imports_what_its_front_passes_on_and_not_what_is_the_fronts_own() {
        let front = ("store/mod.rs", "pub use self::traits::Store; pub fn connect() {}");
        let traits = ("store/traits.rs", "pub trait Store {}");
        let passed_on = check(&[front, traits, ("store/memory.rs", "use crate::store::Store;")]);
        assert!(passed_on.is_empty(), "{passed_on:?}");
        let own = check(&[front, traits, ("store/memory.rs", "use super::connect;")]);
        assert!(own[0].contains("`store::memory` must not import `store`"), "{own:?}");
    }

    #[test]
    fn tests_may_import_what_they_like() {
        let text = "#[cfg(test)]\nmod tests { use crate::client::Client; }";
        assert!(check(&[("guard.rs", text), ("client.rs", ""), ("guard/tests.rs", "")]).is_empty());
    }

    #[test]
    fn what_the_root_passes_on_counts_as_the_module_it_lives_in() {
        let root = ("lib.rs", "pub use self::client::Client; pub use leasehold_core::Error;");
        let names = "use crate::{Client, Error};";
        let (below, above) = (("guard.rs", names), ("blocking/mod.rs", names));
        let wrong = check(&[root, ("client.rs", ""), below, above]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("guard.rs") && wrong[0].contains("`client`"), "{wrong:?}");
    }

    #[test]
    fn a_module_without_a_layer_fails() {
        assert!(check(&[("surprise.rs", "")])[0].contains("no layer"));
    }

    #[test]
    fn a_crate_depends_on_those_below_it_only() {
        let manifest = |path: &str, text: &str| {
            check_crate(&File { path: path.to_owned(), text: text.to_owned() })
        };
        let up = "[dependencies]\nleasehold = { path = \"../leasehold\" }";
        assert!(manifest("crates/leasehold-core/Cargo.toml", up).is_some());
        let hidden = "[dev-dependencies]\nleasehold-testkit.workspace = true";
        assert!(manifest("crates/leasehold/Cargo.toml", hidden).is_some());
        let tests_only = "[dev-dependencies]\nleasehold-testkit.workspace = true";
        assert!(manifest("crates/leasehold-cli/Cargo.toml", tests_only).is_none());
        let always = "[dependencies]\nleasehold-testkit.workspace = true";
        assert!(manifest("crates/leasehold-cli/Cargo.toml", always).is_some());
        let down = "[dependencies]\nleasehold-core.workspace = true";
        assert!(manifest("crates/leasehold/Cargo.toml", down).is_none());
        assert!(manifest("crates/new/Cargo.toml", "").is_some());
    }
}
