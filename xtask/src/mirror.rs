//! The form without async, held to its word: by the texts in `api/`, whatever waits has a type of
//! the same name in `blocking`, with methods of the same names.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::File;

/// Where the form without async is, in each package that has one.
const BLOCKING: &str = "blocking";

/// Modules that both forms share: what stores are made of, and what is said to them.
const SHARED: [&str; 2] = ["store", "model"];

/// What has no other half: a type or a method, and why.
const ALONE: [(&str, &str); 5] = [
    ("leasehold::Guard::lost", "it is a future: a thread has `loss` and `on_lost`"),
    ("leasehold::election::Observation::drop", "what it holds is dropped with it"),
    ("leasehold::election::Leadership::guard", "what it tells, the leadership tells itself"),
    ("leasehold::election::Leadership::lost", "as that of a guard"),
    ("leasehold_data::Batcher", "it gathers what the tasks of one runtime ask for"),
];

/// The methods of a type by its path, and whether one of them is async.
#[derive(Debug, Default)]
struct Type {
    methods: BTreeSet<String>,
    waits: bool,
}

/// Names what a form without async lacks, in the texts of all published packages.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let texts = files.iter().filter(|file| file.path.starts_with("api/"));
    let each: Vec<_> = texts.map(|file| (&file.path, types(&file.text))).collect();
    let mut wrong: Vec<String> = each
        .iter()
        .filter(|(_, types)| types.keys().any(|path| is_blocking(path)))
        .flat_map(|(file, types)| {
            missing(types)
                .into_iter()
                .map(move |what| format!("{file}: `{what}` has no blocking form"))
        })
        .collect();
    let all: BTreeSet<String> =
        each.iter().flat_map(|(_, types)| missing_but(types, &[])).collect();
    let stale = ALONE.iter().filter(|(what, _)| !all.contains(*what));
    wrong.extend(stale.map(|(what, _)| format!("xtask/src/mirror.rs: `{what}` is not alone")));
    wrong
}

/// What has no other half and no reason for it.
fn missing(types: &BTreeMap<String, Type>) -> Vec<String> {
    missing_but(types, &ALONE)
}

fn missing_but(types: &BTreeMap<String, Type>, alone: &[(&str, &str)]) -> Vec<String> {
    let is_alone = |what: &str| alone.iter().any(|(known, _)| *known == what);
    let mut missing = Vec::new();
    for (path, here) in types.iter().filter(|(path, _)| !is_blocking(path) && !is_shared(path)) {
        let (package, name) = (path.split("::").next(), path.rsplit("::").next());
        let (Some(package), Some(name)) = (package, name) else { continue };
        match types.get(&format!("{package}::{BLOCKING}::{name}")) {
            Some(there) => {
                let methods = here.methods.difference(&there.methods);
                missing.extend(methods.map(|method| format!("{path}::{method}")));
            }
            None if here.waits => missing.push(path.clone()),
            None => {}
        }
    }
    missing.retain(|what| !is_alone(what));
    missing
}

fn is_blocking(path: &str) -> bool {
    path.split("::").nth(1) == Some(BLOCKING)
}

fn is_shared(path: &str) -> bool {
    path.split("::").nth(1).is_some_and(|module| SHARED.contains(&module))
}

/// The types of a package that have methods.
fn types(text: &str) -> BTreeMap<String, Type> {
    let mut types: BTreeMap<String, Type> = BTreeMap::new();
    for line in text.lines() {
        let Some((before, signature)) = line.split_once("fn ") else { continue };
        if !before.starts_with("pub ") {
            continue;
        }
        let path = path_of(signature);
        let Some((owner, method)) = path.rsplit_once("::") else { continue };
        let here = types.entry(owner.to_owned()).or_default();
        here.methods.insert(method.to_owned());
        here.waits |= before.contains("async ");
    }
    types.retain(|path, _| path.rsplit("::").next().is_some_and(is_type));
    types
}

/// A function's path, without what is generic in it.
fn path_of(signature: &str) -> String {
    let mut depth = 0_u32;
    let mut path = String::new();
    for character in signature.chars() {
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            _ if depth == 0 => path.push(character),
            _ => {}
        }
    }
    path
}

/// Whether the last part of a path names a type, and not a module.
fn is_type(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
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

    fn found(text: &str) -> Vec<String> {
        missing(&types(text))
    }

    #[test]
    fn what_a_form_without_async_lacks_is_named() {
        assert_eq!(found(WHOLE), [""; 0]);
        let method = format!("{WHOLE}pub const fn a::Lock::ttl(self) -> Self\n");
        assert_eq!(found(&method), ["a::Lock::ttl"], "a method, async or not");
        let generic = format!("{WHOLE}pub async fn a::Many<T, R>::run<U: Into<T>>(&self, U)\n");
        assert_eq!(found(&generic), ["a::Many"], "a type");
    }

    #[test]
    fn what_needs_no_other_half_any_more_is_named() {
        let file = |text: &str| File { path: "api/a.txt".to_owned(), text: text.to_owned() };
        let wrong = check(&[file(WHOLE)]);
        assert!(wrong.iter().any(|line| line.contains("Guard::lost")), "{wrong:?}");
    }
}
