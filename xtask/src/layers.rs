//! `cargo xtask layers`: a module imports only from the layers below its own, and no modules of one
//! folder import each other in a ring. Crates need no check: cargo refuses rings of them.
//!
//! Paths are read from the text: those that begin with `crate`, `self` or `super`, outside comments
//! and tests. What a module passes on by `pub use` counts as its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::run::Outcome;
use crate::tree::{self, File};

/// Who may import whom, as ARCHITECTURE.md shows it: a folder, and its modules from the lowest to
/// the highest layer. Those of one layer do not import each other.
const LAYERS: [(&str, &[&str]); 9] = [
    (
        "crates/leasehold-core/src",
        &[
            "bugs name setters",
            "page text time token",
            "backoff holder",
            "lease options",
            "request",
            "error",
            "model renewal",
            "fence quorum",
        ],
    ),
    (
        "crates/leasehold/src",
        &[
            "sync",
            "mutex process",
            "background clock event failures replies",
            "lost",
            "store",
            "keeper",
            "acquire admin guard",
            "lock",
            "election fence rwlock semaphore",
            "client",
            "blocking",
        ],
    ),
    (
        "crates/leasehold/src/store",
        &[
            "finding message place protocol renewals secret traits unreadable",
            "pace warnings",
            "clocked options",
            "socket tls url",
            "file memory postgres quorum redis",
            "router",
            "fuzzing",
        ],
    ),
    (
        "crates/leasehold/src/store/postgres",
        &["options", "connection", "record schema", "inbox step thin", "doctor", "chores"],
    ),
    (
        "crates/leasehold/src/store/redis",
        &[
            "options rights",
            "connection",
            "layout",
            "durability",
            "topology",
            "clocks contention list node_list pubsub",
            "checks",
            "doctor quorum_node run_script",
            "fuzzing wire",
        ],
    ),
    ("crates/leasehold-data/src", &["batch model", "store", "part", "numbers stock", "data"]),
    (
        "python/src",
        &[
            "values wake",
            "done errors",
            "events options process",
            "fence queue slot told verb",
            "completions watches",
            "client",
            "admin guard",
            "election lock",
        ],
    ),
    ("crates/leasehold-cli/src/watch", &["history", "row", "deadlocks", "picture", "scanner"]),
    (
        "crates/leasehold-cli/src",
        &[
            "moment process stderr store_url terminal user",
            "signals watch",
            "report secrets",
            "runtime store_choice table",
            "args other_process",
            "connection",
            "child",
            "detached",
            "commands",
            "fuzzing",
        ],
    ),
];

/// The folder whose modules may import each other in a ring: the scripts share values with two of
/// the layouts that call them.
const MAY_RING: &str = "crates/leasehold/src/store/redis/layout";

/// A module, or what a path names: the folder of its crate, and then each part.
type Path = Vec<String>;

/// An import between siblings: one contains the importing module, and one the imported module.
#[derive(Debug)]
struct Arrow {
    folder: Path,
    from: String,
    to: String,
    place: String,
}

/// Checks the whole tree.
pub(crate) fn run() -> Outcome {
    let files = tree::files()?;
    let wrong = check(&files);
    wrong.iter().for_each(|line| eprintln!("{line}"));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("layers: {} imports or modules are out of place", wrong.len()))
}

fn check(files: &[File]) -> Vec<String> {
    let sources: Vec<(Path, &File)> =
        files.iter().filter_map(|file| Some((module(file)?, file))).collect();
    let tests: BTreeSet<Path> =
        sources.iter().flat_map(|(module, file)| test_modules(module, &file.text)).collect();
    let is_test = |module: &Path| (0..=module.len()).any(|end| tests.contains(&module[..end]));
    let sources = sources.into_iter().filter(|(module, _)| !is_test(module));
    let sources: BTreeMap<Path, &File> = sources.collect();
    let modules: BTreeSet<&[String]> =
        sources.keys().flat_map(|module| (1..=module.len()).map(|end| &module[..end])).collect();
    let mut arrows = Vec::new();
    for (from, file) in &sources {
        for (line, to) in imports(from, &file.text) {
            let same = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
            if same < from.len() && modules.contains(to.get(..=same).unwrap_or_default()) {
                let place = format!("{}:{line}", file.path);
                let (folder, from) = (from[..same].to_vec(), from[same].clone());
                arrows.push(Arrow { folder, from, to: to[same].clone(), place });
            }
        }
    }
    let mut wrong = rings(&arrows);
    for (folder, rows) in LAYERS {
        let row = |module: &str| rows.iter().position(|row| row.split(' ').any(|it| it == module));
        let folder: Path = split(folder);
        let inside = modules.iter().filter(|it| it.len() == folder.len() + 1);
        for module in inside.filter(|module| module.starts_with(&folder)) {
            let (folder, name) = (folder.join("/"), &module[folder.len()]);
            if row(name).is_none() {
                wrong.push(format!(
                    "{folder}/{name}: a module without a layer: write `{name}` into the rows of \
                     \"{folder}\" in LAYERS of xtask/src/layers.rs, above all that it imports"
                ));
            }
        }
        for Arrow { from, to, place, .. } in arrows.iter().filter(|it| it.folder == folder) {
            if row(from) <= row(to) && row(from).is_some() {
                wrong.push(format!("{place}: `{from}` must not import `{to}`: it is not below it"));
            }
        }
    }
    wrong
}

/// Each ring of modules in a folder, with the imports that close it.
fn rings(arrows: &[Arrow]) -> Vec<String> {
    let next = |folder: &Path, from: &str| -> BTreeSet<&str> {
        let here = arrows.iter().filter(|it| it.folder == *folder && it.from == from);
        here.map(|arrow| arrow.to.as_str()).collect()
    };
    let reaches = |folder: &Path, from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), next(folder, from));
        while let Some(module) = open.pop_first() {
            if seen.insert(module) {
                open.extend(next(folder, module));
            }
        }
        seen.contains(to)
    };
    let checked = arrows.iter().filter(|it| it.folder != split(MAY_RING));
    let closing = checked.filter(|it| reaches(&it.folder, &it.to, &it.from));
    let say = |Arrow { from, to, place, .. }: &Arrow| {
        format!("{place}: `{from}` imports `{to}`, which imports it in turn: a ring")
    };
    closing.map(say).collect()
}

/// The module that a file of a package is.
fn module(file: &File) -> Option<Path> {
    let path = file.path.strip_suffix(".rs").filter(|path| path.contains("/src/"))?;
    let joins = ["/mod", "/lib", "/main"].iter().find_map(|end| path.strip_suffix(end));
    Some(split(joins.unwrap_or(path)))
}

fn split(path: &str) -> Path {
    path.split('/').map(str::to_owned).collect()
}

/// The modules that a module has for tests only, in other files.
fn test_modules(module: &Path, text: &str) -> Vec<Path> {
    let lines: Vec<&str> = text.lines().collect();
    let declared = lines.windows(2).filter(|pair| pair[0].starts_with("#[cfg(test)]"));
    let names = declared.filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod "));
    names.map(|(_, name)| [&module[..], &[name.to_owned()]].concat()).collect()
}

/// What a module names of its crate: the line, and the path.
fn imports(module: &Path, text: &str) -> Vec<(usize, Path)> {
    let (root, parent) = match module.iter().position(|part| part == "src") {
        Some(root) => (&module[..=root], &module[..module.len().saturating_sub(1).max(root + 1)]),
        None => return Vec::new(),
    };
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.split('\n').map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join("\n");
    let mut imports = Vec::new();
    for (word, base) in [("crate::", root), ("self::", module), ("super::", parent)] {
        for (at, _) in code.match_indices(word) {
            let is_inside = |before: char| before.is_alphanumeric() || "_:$".contains(before);
            if !code[..at].ends_with(is_inside) {
                let (line, mut paths) = (code[..at].matches('\n').count() + 1, Vec::new());
                tree(&code[at + word.len()..], base.to_vec(), &mut paths);
                imports.extend(paths.into_iter().map(|path| (line, path)));
            }
        }
    }
    imports
}

/// Reads `a::b` or `a::{b, c::d}` behind a path, and gives what follows.
fn tree<'a>(text: &'a str, mut base: Path, paths: &mut Vec<Path>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = tree(rest, base.clone(), paths).trim_start();
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or_default(),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match name {
        "super" => drop(base.pop()),
        "self" | "" => {}
        name => base.push(name.to_owned()),
    }
    match rest.strip_prefix("::") {
        Some(rest) => tree(rest, base, paths),
        None => {
            paths.push(base);
            let alias = rest.trim_start().strip_prefix("as ").unwrap_or(rest);
            alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks these files, in a tree without all other modules of the layers.
    fn wrong(sample: &[(&str, &str)]) -> Vec<String> {
        let file =
            |(path, text): &(&str, &str)| File::new(&format!("crates/leasehold/src/{path}"), text);
        check(&sample.iter().map(file).collect::<Vec<_>>())
    }

    fn fails(sample: &[(&str, &str)], why: &[&str]) {
        let wrong = wrong(sample);
        assert!(wrong.len() == 1 && why.iter().all(|part| wrong[0].contains(part)), "{wrong:?}");
    }

    #[test]
    fn an_import_from_above_fails_and_one_from_below_does_not() {
        let guard = ("guard.rs", "// crate::no\nuse crate::lock::Lock;");
        let lock = ("lock.rs", "fn f() { crate::keeper::g() }");
        fails(&[guard, lock, ("keeper.rs", "")], &["guard.rs:2", "`lock`"]);
        let lock = ("lock.rs", "use crate::{keeper, guard::{self, Guard}};");
        assert_eq!(wrong(&[("guard.rs", ""), lock, ("keeper.rs", "")]), [""; 0]);
    }

    #[test]
    fn stores_do_not_import_each_other_but_share_their_trait_and_their_own_parts() {
        let shared = ("store/mod.rs", "pub use self::memory::Memory; pub trait Store {}");
        let redis = [("store/redis/mod.rs", "mod list;"), ("store/redis/list.rs", "use super::U;")];
        let memory = ("store/memory.rs", "use super::{Store, redis::list};");
        fails(&[shared, redis[0], redis[1], memory], &["memory.rs:1", "`redis`"]);
        let memory = ("store/memory.rs", "use super::Store;");
        assert_eq!(wrong(&[shared, redis[0], redis[1], memory]), [""; 0]);
    }

    #[test]
    fn a_module_without_a_layer_is_told_where_to_write_it() {
        fails(&[("new/mod.rs", ""), ("new/part.rs", "")], &["`new`", "LAYERS of xtask/src/layers"]);
    }

    #[test]
    fn rings_fail_in_every_folder_and_tests_may_import_what_they_like() {
        let (a, b) = (("keeper/a.rs", "use super::b::B;"), ("keeper/b.rs", ""));
        assert_eq!(wrong(&[a, b]), [""; 0]);
        let ring = wrong(&[a, ("keeper/b.rs", "use crate::keeper::a;")]);
        assert!(ring.len() == 2 && ring[0].contains("a.rs:1"), "{ring:?}");
        let test = ("keeper/b.rs", "#[cfg(test)]\nmod tests {\n    use super::super::a;\n}");
        assert_eq!(wrong(&[a, test]), [""; 0]);
        let declared = ("keeper/mod.rs", "#[cfg(test)]\nmod b;");
        assert_eq!(wrong(&[a, ("keeper/b.rs", "use super::a::A;"), declared]), [""; 0]);
    }
}
