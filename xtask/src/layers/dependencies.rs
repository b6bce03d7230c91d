//! What the packages of the workspace depend on.

use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind};

use super::table::{CRATES, TABLE};
use crate::outcome::Outcome;
use crate::packages;

/// Checks each package against the table.
pub(super) fn check(root: &Path) -> Outcome<Vec<String>> {
    let packages = packages::all(root)?;
    let members: Vec<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let wrong = packages.iter().filter_map(|package| {
        let folder = package.manifest_path.parent()?.strip_prefix(root).ok()?;
        let ours = package.dependencies.iter();
        let ours = ours.filter(|needed| members.contains(&needed.name.as_str()));
        let is_for_tests = |needed: &Dependency| needed.kind == DependencyKind::Development;
        let needs = ours.map(|needed| (needed.name.as_str(), is_for_tests(needed)));
        check_package(folder.as_str(), needs)
    });
    Ok(wrong.collect())
}

/// Checks the packages of ours that one of them needs, and whether for its tests only.
fn check_package<'a>(
    folder: &str,
    mut needs: impl Iterator<Item = (&'a str, bool)>,
) -> Option<String> {
    let Some((_, allowed, in_tests)) = CRATES.iter().find(|(name, ..)| *name == folder) else {
        return Some(format!("{folder}: not in the table of crates in {TABLE}"));
    };
    let is_wrong = |(name, for_tests): &(&str, bool)| {
        !(allowed.contains(name) || *for_tests && in_tests.contains(name))
    };
    let (wrong, _) = needs.find(is_wrong)?;
    Some(format!("{folder}/Cargo.toml: must not depend on {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_depends_on_those_below_it_only() {
        let is_wrong = |folder: &str, name: &str, for_tests: bool| {
            check_package(folder, [(name, for_tests)].into_iter()).is_some()
        };
        assert!(is_wrong("crates/leasehold-core", "leasehold", false));
        assert!(!is_wrong("crates/leasehold", "leasehold-core", false));
        assert!(is_wrong("crates/leasehold", "leasehold-testkit", true));
        assert!(!is_wrong("crates/leasehold-cli", "leasehold-testkit", true));
        assert!(is_wrong("crates/leasehold-cli", "leasehold-testkit", false));
        assert!(is_wrong("crates/new", "leasehold", false));
    }

    #[test]
    fn every_package_of_this_workspace_is_in_the_table() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
        assert_eq!(check(&root).unwrap(), [""; 0]);
    }
}
