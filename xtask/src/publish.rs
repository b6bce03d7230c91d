//! Whether every crate that is published can be: what a registry asks for, and what its page shows.

use std::path::Path;

use cargo_metadata::{DependencyKind, Package};

use crate::command::Run;
use crate::outcome::Outcome;
use crate::packages;

/// Where the packages are put; they are thrown away with `target`.
const DIRECTORY: &str = "target/publish";

/// Pages that are published with the library. The tree shows them by links, so that each is written
/// once.
const LINKS: [&str; 3] = ["README.md", "docs/redis.md", "docs/store-urls.md"];

/// Checks the pages and the manifests, and packs each crate as `cargo publish` would.
pub(crate) fn check(root: &Path) -> Outcome {
    check_links(root)?;
    let all = packages::all(root)?;
    let published: Vec<&Package> = all.iter().filter(|package| is_published(package)).collect();
    let missing: Vec<String> =
        published.iter().flat_map(|package| missing(package, &published)).collect();
    if !missing.is_empty() {
        return Err(missing.join("; "));
    }
    let mut arguments = vec!["package", "--no-verify", "--allow-dirty", "--locked", "--quiet"];
    arguments.extend(["--target-dir", DIRECTORY]);
    arguments.extend(published.iter().flat_map(|package| ["--package", package.name.as_str()]));
    Run::cargo(root, &arguments).show()
}

fn check_links(root: &Path) -> Outcome {
    match LINKS.iter().find(|page| !root.join(page).is_symlink()) {
        Some(page) => Err(format!("{page} is a copy: make it a link to that of crates/leasehold")),
        None => Ok(()),
    }
}

fn is_published(package: &Package) -> bool {
    package.publish.as_ref().is_none_or(|registries| !registries.is_empty())
}

/// What a package lacks, a line each.
fn missing(package: &Package, published: &[&Package]) -> Vec<String> {
    let is_there = package.readme().is_some_and(|readme| readme.exists());
    let has_library = package.targets.iter().any(|target| target.is_lib() && target.doc);
    let documented = package.metadata.pointer("/docs/rs").is_some();
    let facts = [
        ("description", package.description.is_some()),
        ("license", package.license.is_some()),
        ("repository", package.repository.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("readme", is_there),
        ("[package.metadata.docs.rs]", documented || !has_library),
    ];
    let name = &package.name;
    let facts = facts.into_iter().filter(|(_, is_there)| !is_there);
    let facts = facts.map(|(what, _)| format!("{name}: no {what} in its Cargo.toml"));
    let others = package.dependencies.iter().filter(|other| {
        // What only tests need is left out of the manifest that is published.
        let is_needed = other.kind != DependencyKind::Development;
        let is_known = published.iter().any(|known| known.name.as_str() == other.name);
        is_needed && other.path.is_some() && !(is_known && other.req.to_string() != "*")
    });
    let others = others
        .map(|other| format!("{name}: {} has no version, or is not published itself", other.name));
    facts.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_library_that_is_copied_is_named() {
        let tree = tempfile::tempdir().unwrap();
        std::fs::create_dir(tree.path().join("docs")).unwrap();
        let link = |page| std::os::unix::fs::symlink("elsewhere", tree.path().join(page)).unwrap();
        LINKS.iter().for_each(link);
        assert_eq!(check_links(tree.path()), Ok(()));
        std::fs::remove_file(tree.path().join(LINKS[1])).unwrap();
        std::fs::write(tree.path().join(LINKS[1]), "a copy").unwrap();
        assert!(check_links(tree.path()).unwrap_err().starts_with("docs/redis.md is a copy"));
    }

    #[test]
    fn what_a_crate_lacks_is_named_and_those_that_are_published_lack_nothing() {
        let all = packages::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap();
        let find = |name: &str| all.iter().find(|package| package.name == name).unwrap();
        let published: Vec<&Package> = all.iter().filter(|package| is_published(package)).collect();
        let mut names: Vec<&str> = published.iter().map(|package| package.name.as_str()).collect();
        names.sort_unstable();
        let expected = ["leasehold", "leasehold-cli", "leasehold-conformance", "leasehold-core"];
        assert_eq!(names, [&expected[..], &["leasehold-data", "leasehold-watch"]].concat());
        assert_eq!(missing(find("leasehold"), &published), [""; 0]);
        // It is published nowhere, and lacks what that would need.
        let testkit = missing(find("leasehold-testkit"), &published).join("\n");
        for words in ["no readme", "no [package.metadata.docs.rs]", "no keywords"] {
            assert!(testkit.contains(words), "{words}: {testkit}");
        }
        let alone = missing(find("leasehold"), &[]).join("\n");
        assert!(alone.contains("leasehold-core has no version, or is not published"), "{alone}");
    }
}
