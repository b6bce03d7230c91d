//! The programs of cargo that pack, at versions that are named here.

use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::outcome::Outcome;

/// Where they are, below the root of the workspace; nothing else of the machine is changed.
const DIRECTORY: &str = "target/tools";

/// Makes the package of Debian; and lists what the program is built of.
const TOOLS: [(&str, &str); 2] = [("cargo-deb", "3.8.0"), ("cargo-sbom", "0.10.0")];

/// Installs what is missing, and gives the directory of the programs.
pub(super) fn install(root: &Path) -> Outcome<PathBuf> {
    let (directory, programs) = (root.join(DIRECTORY), root.join(DIRECTORY).join("bin"));
    let into = directory.display().to_string();
    let listed = Run::cargo(root, &["install", "--list", "--root", &into]).read()?;
    for (name, version) in TOOLS {
        if listed.lines().any(|line| line == format!("{name} v{version}:")) {
            continue;
        }
        let words = ["install", "--locked", "--root", &into, "--version", version, name];
        Run::cargo(root, &words).show()?;
    }
    Ok(programs)
}
