//! The packages of this workspace, as cargo knows them.

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::outcome::Outcome;

/// Every package of this workspace.
pub(crate) fn all(root: &Path) -> Outcome<Vec<Package>> {
    Ok(metadata(root)?.packages)
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory(root: &Path) -> Outcome<PathBuf> {
    Ok(metadata(root)?.target_directory.into())
}

fn metadata(root: &Path) -> Outcome<Metadata> {
    let metadata = MetadataCommand::new().current_dir(root).no_deps().exec();
    metadata.map_err(|error| format!("cargo metadata: {error}"))
}

/// The features of a package, but for the default set.
pub(crate) fn features(root: &Path, package: &str) -> Outcome<Vec<String>> {
    let found = all(root)?.into_iter().find(|found| found.name == package);
    let found = found.ok_or_else(|| format!("no package {package}"))?;
    Ok(found.features.into_keys().filter(|name| name != "default").collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_features_of_a_package_are_found_but_for_the_default_set() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let features = features(&root, "leasehold").unwrap();
        assert!(features.contains(&"redis".to_owned()), "{features:?}");
        assert!(!features.contains(&"default".to_owned()), "{features:?}");
    }
}
