//! `cargo xtask layers`: a module imports only from the layers below its own, a crate only from
//! the crates below it. ARCHITECTURE.md shows the same tables as a picture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Outcome;
use crate::source::{Source, line_of, words};
use crate::tree::{self, File};

/// The modules of one package from the lowest layer to the highest. Modules of one layer do not
/// import each other, modules below a name that stands here may. `store::*` stands for each module
/// directly in `store`.
struct Layers {
    package: &'static str,
    /// The module whose own modules these are; none for those of the whole package.
    within: &'static [&'static str],
    rows: &'static [&'static [&'static str]],
}

const LAYERS: [Layers; 3] = [
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
            &["background", "clock", "event", "lost", "refusal", "trouble"],
            &["store"],
            &["contact", "store::*"],
            &["hints", "keeper"],
            &["engine"],
            &["admin", "guard", "wait"],
            &["adopt", "free", "multi"],
            &["lock"],
            &["batch", "data", "election", "fence", "once", "rwlock", "semaphore"],
            &["client"],
            &["blocking"],
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
    let front = files.iter().find(|(module, _)| module.is_empty());
    let front = front.map_or_else(BTreeMap::new, |(_, root)| front_door(&root.text));
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
            // What the root passes on lives in the module that the root has it from.
            let path = path.first().and_then(|name| front.get(name)).unwrap_or(&path);
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            let to = (0..=path.len()).rev().map(|end| &path[..end]);
            let Some(to) = to.into_iter().find(|prefix| modules.contains(prefix)) else { continue };
            if to.is_empty() || to.starts_with(from) {
                continue; // the root's own items; a module joins its children
            }
            if let Some(other) = layers.inside(to).and_then(|to| layers.find(to))
                && !own.may_import(&other)
            {
                let (from, to) = (from.join("::"), to.join("::"));
                wrong.push(format!("{line}: `{from}` must not import `{to}`: it is not below it"));
            }
        }
    }
    wrong
}

/// A module's place: its row, and the part of its path that the row names.
struct Place {
    row: usize,
    unit: Vec<String>,
}

impl Place {
    fn may_import(&self, other: &Self) -> bool {
        other.row < self.row || self.unit == other.unit
    }
}

impl Layers {
    /// The path of a module below the one whose modules these are.
    fn inside<'a>(&self, module: &'a [&'a str]) -> Option<&'a [&'a str]> {
        module.strip_prefix(self.within)
    }

    fn find(&self, module: &[&str]) -> Option<Place> {
        let named = |name: &str| -> Option<usize> {
            let parts: Vec<&str> = name.split("::").collect();
            let fits = parts.iter().zip(module).all(|(part, found)| *part == "*" || part == found);
            (fits && parts.len() <= module.len()).then_some(parts.len())
        };
        let rows = self.rows.iter().enumerate();
        let found = rows.flat_map(|(row, names)| names.iter().map(move |name| (row, *name)));
        let found = found.filter_map(|(row, name)| Some((named(name)?, row)));
        let (length, row) = found.max()?;
        let unit = module[..length].iter().map(|part| (*part).to_owned()).collect();
        Some(Place { row, unit })
    }
}

/// The module that a file below `src/` holds.
fn module(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| !matches!(*part, "lib" | "main")).collect()
}

/// Names that the crate's root passes on from its own modules, and where they live.
fn front_door(text: &str) -> BTreeMap<String, Vec<String>> {
    let code = Source::new(text).without_tests();
    let passed_on = paths(&code, &[]).into_iter().filter(|(_, path)| path.len() > 1);
    passed_on.filter_map(|(_, path)| Some((path.last()?.clone(), path))).collect()
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
        let layers = LAYERS.iter().find(|layers| layers.package == package);
        layers.map(|layers| check_modules(layers, &files)).unwrap_or_default()
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
    fn stores_do_not_import_each_other_but_share_their_trait_and_their_own_parts() {
        let shared = ("store/mod.rs", "pub use self::memory::Memory; pub trait Store {}");
        let memory = ("store/memory.rs", "use super::Store; use super::redis::wire;");
        let redis = ("store/redis/mod.rs", "mod wire; use self::wire::Reply; use super::Store;");
        let wire = ("store/redis/wire.rs", "use super::super::Store; use super::script;");
        let script = ("store/redis/script.rs", "use crate::store::redis::wire::Reply;");
        let wrong = check(&[shared, memory, redis, wire, script]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("`store::memory` must not import `store::redis::wire`"));
    }

    #[test]
    fn a_module_inside_redis_imports_only_from_below() {
        let connection = ("store/redis/connection/mod.rs", "use crate::store::redis::topology::T;");
        let topology = ("store/redis/topology/mod.rs", "use crate::store::redis::connection::C;");
        let root = ("store/redis/mod.rs", "use self::topology::T;");
        let package = "crates/leasehold";
        let files: Vec<File> = [connection, topology, root]
            .iter()
            .map(|(path, text)| File {
                path: format!("{package}/src/{path}"),
                text: (*text).to_owned(),
            })
            .collect();
        let wrong: Vec<_> =
            LAYERS.iter().flat_map(|layers| check_modules(layers, &files)).collect();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("must not import `store::redis::topology`"), "{wrong:?}");
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
