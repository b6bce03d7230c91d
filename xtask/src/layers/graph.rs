//! The files of one crate, and which of them imports which.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Imports, Path};
use crate::outcome::Outcome;
use crate::tree::File;

/// One crate: the files below the folder of its root.
#[derive(Debug)]
pub(super) struct Crate<'a> {
    /// The folder of its root, below the root of the workspace.
    pub(super) folder: &'a str,
    pub(super) modules: BTreeMap<Path, Module<'a>>,
    /// Without those from or to tests.
    pub(super) arrows: Vec<Arrow>,
}

/// One file of it.
#[derive(Debug)]
pub(super) struct Module<'a> {
    pub(super) file: &'a File,
    pub(super) is_test: bool,
    /// How many of its lines are compiled for tests only.
    pub(super) test_lines: usize,
}

/// One file imports another.
#[derive(Clone, Debug)]
pub(super) struct Arrow {
    pub(super) from: Path,
    pub(super) to: Path,
    pub(super) line: usize,
}

/// Every crate that has more than one file: libraries, programs and tests.
pub(super) fn crates(files: &[File]) -> Outcome<Vec<Crate<'_>>> {
    let folders: BTreeSet<&str> = files.iter().filter_map(folder_of_root).collect();
    let folders: Vec<&str> = folders.into_iter().collect();
    folders.iter().map(|folder| Crate::read(folder, files, &folders)).collect()
}

fn folder_of_root(file: &File) -> Option<&str> {
    file.path.strip_suffix("/main.rs").or(file.path.strip_suffix("/lib.rs"))
}

impl<'a> Crate<'a> {
    fn read(folder: &'a str, files: &'a [File], folders: &[&str]) -> Outcome<Self> {
        let is_in = |file: &File, folder: &str| {
            file.path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        let is_ours = |file: &&File| {
            file.is("rs")
                && is_in(file, folder)
                && !folders.iter().any(|other| other.len() > folder.len() && is_in(file, other))
        };
        // A program beside a library is a crate of one file.
        let (library, program) = (format!("{folder}/lib.rs"), format!("{folder}/main.rs"));
        let has_library = files.iter().any(|file| file.path == library);
        let is_program = |file: &&File| has_library && file.path == program;
        let mut read = BTreeMap::new();
        for file in files.iter().filter(is_ours).filter(|file| !is_program(file)) {
            let module = module(&file.path[folder.len() + 1..]);
            let imports = Imports::of(&file.text, &module);
            let imports = imports.map_err(|why| format!("{}:{why}", file.path))?;
            read.insert(module, (file, imports));
        }
        let tests: BTreeSet<Path> =
            read.values().flat_map(|(_, imports)| imports.test_modules.clone()).collect();
        let is_test = |module: &Path| tests.iter().any(|test| module.starts_with(test));
        let mut arrows: BTreeMap<(Path, Path), usize> = BTreeMap::new();
        for (from, (_, imports)) in read.iter().filter(|(module, _)| !is_test(module)) {
            for (line, path) in &imports.paths {
                let to = place(path, &read).filter(|to| to != from && !is_test(to));
                to.map(|to| arrows.entry((from.clone(), to)).or_insert(*line));
            }
        }
        let arrows = arrows.into_iter().map(|((from, to), line)| Arrow { from, to, line });
        let arrows = arrows.collect();
        let modules = read.into_iter().map(|(module, (file, imports))| {
            let (is_test, test_lines) = (is_test(&module), imports.test_lines);
            (module, Module { file, is_test, test_lines })
        });
        Ok(Self { folder, modules: modules.collect(), arrows })
    }

    /// Rings of its files, as modules.
    pub(super) fn rings(&self) -> Vec<BTreeSet<Path>> {
        rings(self.arrows.iter().map(|arrow| (&arrow.from, &arrow.to)))
    }

    pub(super) fn path_of(&self, module: &Path) -> &str {
        self.modules.get(module).map_or(self.folder, |module| &module.file.path)
    }
}

/// The largest sets in which every member reaches every other.
pub(super) fn rings<'a, T: Ord + Clone + 'a>(
    arrows: impl Iterator<Item = (&'a T, &'a T)>,
) -> Vec<BTreeSet<T>> {
    let mut next: BTreeMap<&T, BTreeSet<&T>> = BTreeMap::new();
    for (from, to) in arrows {
        next.entry(from).or_default().insert(to);
    }
    let reached_from = |start: &'a T| {
        let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(from) = open.pop() {
            let new = next.get(from).into_iter().flatten().filter(|to| reached.insert(**to));
            open.extend(new.copied().collect::<Vec<_>>());
        }
        reached
    };
    let reached: BTreeMap<&T, BTreeSet<&T>> =
        next.keys().map(|from| (*from, reached_from(from))).collect();
    let ring = |(from, to): (&&T, &BTreeSet<&T>)| -> BTreeSet<T> {
        let comes_back = |other: &&&T| reached.get(**other).is_some_and(|to| to.contains(*from));
        to.iter().filter(comes_back).map(|other| (**other).clone()).collect()
    };
    let rings: BTreeSet<BTreeSet<T>> = reached.iter().map(ring).collect();
    rings.into_iter().filter(|ring| !ring.is_empty()).collect()
}

/// The module that a file below the folder of the root holds.
fn module(path: &str) -> Path {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| !matches!(*part, "lib" | "main")).map(str::to_owned).collect()
}

/// The file in which a path ends: what a module passes on counts as where it comes from.
fn place(path: &Path, files: &BTreeMap<Path, (&File, Imports)>) -> Option<Path> {
    let mut path = path.clone();
    // Names may be passed on several times, and in a circle in a file that does not compile.
    for _ in 0..files.len() {
        let end = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end]))?;
        let (module, rest) = path.split_at(end);
        let (_, imports) = files.get(module)?;
        let Some((name, rest)) = rest.split_first() else { return Some(path) };
        match imports.passed_on.get(name) {
            Some((_, from)) => path = [from, rest].concat(),
            None => return Some(module.to_vec()),
        }
    }
    None
}
