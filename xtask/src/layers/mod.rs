//! `cargo xtask layers`: a module imports only from the layers below its own, a crate only from
//! the crates below it, and no files import each other in a ring.

mod dependencies;
mod graph;
mod imports;
mod report;
mod table;

use std::collections::BTreeSet;
use std::path::Path;

use self::graph::{Arrow, Crate};
use self::imports::Path as Module;
use self::table::{TABLE, tables};
use crate::outcome::Outcome;
use crate::tree;

/// Checks the whole tree.
pub(crate) fn run(root: &Path) -> Outcome {
    let files = tree::files(root)?;
    let crates = graph::crates(&files)?;
    let mut wrong: Vec<String> = crates.iter().flat_map(check_rows).collect();
    wrong.extend(check_rings(&crates));
    wrong.extend(dependencies::check(root)?);
    for line in &wrong {
        eprintln!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        count => Err(format!("layers: {count} imports go the wrong way")),
    }
}

/// Prints how each package is built: its parts, their sizes, and who imports whom.
pub(crate) fn report(root: &Path) -> Outcome {
    let files = tree::files(root)?;
    print!("{}", report::text(&graph::crates(&files)?));
    Ok(())
}

/// Modules without a row, and imports from a row that is not below.
fn check_rows(found: &Crate<'_>) -> Vec<String> {
    let mut wrong = Vec::new();
    for layers in tables(found.folder) {
        let has_no_row = |inside: &[String]| layers.find(inside).is_none();
        for (module, file) in found.modules.iter().filter(|(_, file)| !file.is_test) {
            if layers.inside(module).is_some_and(has_no_row) {
                let (path, module) = (&file.file.path, module.join("::"));
                wrong.push(format!("{path}: `{module}` has no layer: give it one in {TABLE}"));
            }
        }
        for arrow in &found.arrows {
            // A module joins its children.
            let places = [&arrow.from, &arrow.to].map(|end| layers.find(layers.inside(end)?));
            if let [Some(from), Some(to)] = places
                && !from.may_import(&to)
                && !arrow.to.starts_with(&arrow.from)
            {
                let (path, line) = (found.path_of(&arrow.from), arrow.line);
                let (from, to) = (arrow.from.join("::"), arrow.to.join("::"));
                wrong.push(format!(
                    "{path}:{line}: `{from}` must not import `{to}`: it is not below it"
                ));
            }
        }
    }
    wrong
}

/// Rings of files.
fn check_rings(crates: &[Crate<'_>]) -> Vec<String> {
    let rings = crates
        .iter()
        .flat_map(|found| found.rings().into_iter().map(move |ring| ring_in_words(found, &ring)));
    rings.collect()
}

fn ring_in_words(found: &Crate<'_>, ring: &BTreeSet<Module>) -> String {
    let files: Vec<&str> = ring.iter().map(|module| found.path_of(module)).collect();
    let within = |arrow: &&Arrow| ring.contains(&arrow.from) && ring.contains(&arrow.to);
    let arrows = found.arrows.iter().filter(within).map(|arrow| {
        let name = |module: &Module| match module.as_slice() {
            [] => "the root".to_owned(),
            module => module.join("::"),
        };
        let (path, line) = (found.path_of(&arrow.from), arrow.line);
        format!("\n  {path}:{line}: `{}` imports `{}`", name(&arrow.from), name(&arrow.to))
    });
    let arrows: String = arrows.collect();
    format!("{} files import each other in a ring: {}{arrows}", files.len(), files.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    const LIBRARY: &str = "crates/leasehold";

    fn files(sample: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): (&str, &str)| File {
            path: format!("{LIBRARY}/src/{path}"),
            text: text.to_owned(),
        };
        let root = [("lib.rs", "")]
            .into_iter()
            .filter(|(root, _)| sample.iter().all(|(path, _)| path != root));
        root.chain(sample.iter().copied()).map(file).collect()
    }

    fn wrong_rows(sample: &[(&str, &str)]) -> Vec<String> {
        graph::crates(&files(sample)).unwrap().iter().flat_map(check_rows).collect()
    }

    fn wrong_rings(sample: &[(&str, &str)]) -> Vec<String> {
        check_rings(&graph::crates(&files(sample)).unwrap())
    }

    #[test]
    fn an_import_from_above_fails_and_one_from_below_does_not() {
        let guard = ("guard.rs", "use crate::lock::Lock;");
        let lock = ("lock.rs", "use crate::{guard::Guard, engine};\nfn f() { super::guard::g() }");
        let wrong = wrong_rows(&[guard, lock, ("engine.rs", "")]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("guard.rs:1") && wrong[0].contains("`lock`"), "{wrong:?}");
    }

    #[test]
    fn stores_do_not_import_each_other_but_share_their_trait_and_their_own_parts() {
        let shared = ("store/mod.rs", "pub use self::memory::Memory; pub trait Store {}");
        let memory = ("store/memory.rs", "use super::Store; use super::redis::url;");
        let redis = ("store/redis/mod.rs", "mod url; use self::url::Reply; use super::Store;");
        let url = ("store/redis/url.rs", "use super::super::Store; use super::topology;");
        let topology = ("store/redis/topology.rs", "fn f() {}");
        let wrong = wrong_rows(&[shared, memory, redis, url, topology]);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("`store::memory` must not import `store::redis::url`"));
        assert!(wrong[1].contains("`store::redis::url` must not import `store::redis::topology`"));
    }

    #[test]
    fn tests_may_import_what_they_like() {
        let text = "#[cfg(test)]\nmod tests { use crate::client::Client; }";
        let declared = ("guard.rs", "#[cfg(test)]\nmod tests;");
        let tests = ("guard/tests.rs", "use super::*; use crate::client::Client;");
        assert!(wrong_rows(&[("lock.rs", text), ("client.rs", ""), declared, tests]).is_empty());
        assert!(wrong_rings(&[("guard.rs", "#[cfg(test)]\nmod tests;"), tests]).is_empty());
    }

    #[test]
    fn what_a_module_passes_on_counts_as_the_module_it_lives_in() {
        let root = ("lib.rs", "pub use self::client::Client; pub use leasehold_core::Error;");
        let client = ("client/mod.rs", "pub use self::inner::Client;");
        let inner = ("client/inner.rs", "pub struct Client;");
        let names = "use crate::{Client, Error};";
        let (below, above) = (("guard.rs", names), ("blocking/mod.rs", names));
        let wrong = wrong_rows(&[root, client, inner, below, above]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        let expected = "`guard` must not import `client::inner`";
        assert!(wrong[0].contains(expected), "{wrong:?}");
    }

    #[test]
    fn a_module_without_a_layer_fails() {
        assert!(wrong_rows(&[("surprise.rs", "")])[0].contains("no layer"));
    }

    #[test]
    fn a_ring_of_files_fails_and_says_which_line_makes_it_one() {
        let lock = ("lock.rs", "\nuse crate::wait::Wait;");
        let wait = ("wait.rs", "fn f() { select! { x = crate::guard::g() => {} } }");
        let guard = ("guard.rs", "use super::lock;");
        let beside = ("client.rs", "use crate::{guard, lock, wait};");
        let wrong = wrong_rings(&[lock, wait, guard, beside]);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains("3 files import each other in a ring"), "{wrong:?}");
        assert!(wrong[0].contains("src/lock.rs:2: `lock` imports `wait`"), "{wrong:?}");
        assert!(!wrong[0].contains("client"), "{wrong:?}");
        assert!(wrong_rings(&[lock, wait, ("guard.rs", ""), beside]).is_empty());
    }

    #[test]
    fn a_module_and_its_child_make_a_ring_unless_the_one_only_passes_the_other_on() {
        let child = ("store/memory.rs", "use super::Store;");
        let passes_on =
            ("store/mod.rs", "mod memory; pub use self::memory::Memory; trait Store {}");
        assert!(wrong_rings(&[passes_on, child]).is_empty());
        let uses = ("store/mod.rs", "mod memory; trait Store {} fn f() { memory::open() }");
        assert_eq!(wrong_rings(&[uses, child]).len(), 1);
        let uses = ("store/mod.rs", "pub use self::memory::Memory; fn f() -> Memory {}");
        assert_eq!(wrong_rings(&[uses, child]).len(), 1);
    }

    #[test]
    fn the_root_is_a_file_like_any_other() {
        let root = ("lib.rs", "mod lock; type Outcome = (); fn f() { lock::f() }");
        assert_eq!(wrong_rings(&[root, ("lock.rs", "use crate::Outcome;")]).len(), 1);
    }

    #[test]
    fn a_program_beside_a_library_is_no_part_of_it() {
        let root = ("lib.rs", "mod lock; type Outcome = (); fn f() { lock::f() }");
        let (lock, program) = (("lock.rs", "use crate::Outcome;"), ("main.rs", "fn main() {}"));
        assert_eq!(wrong_rings(&[root, lock, program]).len(), 1);
    }

    #[test]
    fn the_report_counts_rooms_arrows_and_lines() {
        let root = ("lib.rs", "mod lock;\nmod guard;\n");
        let lock = ("lock/mod.rs", "mod a;\nuse crate::guard;\n");
        let a = ("lock/a.rs", "use crate::guard;\n#[cfg(test)]\nmod tests {}\n");
        let files = files(&[root, lock, a, ("guard.rs", "use crate::lock;\n")]);
        let text = report::text(&graph::crates(&files).unwrap());
        let first = "crates/leasehold/src\n  rooms 3 (2 files, 1 folders)  arrows 2  upward 1  \
                     rings of rooms 1  rings of files 1\n";
        assert!(text.starts_with(first), "{text}");
        assert!(text.contains("         3        2  lock\n"), "{text}");
        assert!(text.contains("         6        2  (all)\n"), "{text}");
    }
}
