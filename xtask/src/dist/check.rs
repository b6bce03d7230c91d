//! The package, put into a tree of its own and used from there.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::outcome::Outcome;

/// What a shell offers where a name stands, and the line that it is asked with.
const COMPLETE: &str = "\
source usr/share/bash-completion/completions/leasehold
COMP_WORDS=(leasehold run pack) COMP_CWORD=2 COMP_LINE='leasehold run pack' COMP_POINT=18
_leasehold leasehold pack run
echo \"${COMPREPLY[@]}\"";

/// Unpacks the package into a tree, and uses what is there.
pub(super) fn check(package: &Path, tree: &Path) -> Outcome {
    let (package, shown) = (package.display().to_string(), tree.display().to_string());
    Run::program("dpkg-deb", &["--extract", &package, &shown]).show()?;
    let program = tree.join("usr/bin/leasehold").display().to_string();
    let linked = Run::program("ldd", &[&program]).read().unwrap_or_default();
    if linked.contains("=>") {
        return Err(format!("the program is not static: {linked}"));
    }
    let store = format!("file:{shown}/locks.db");
    let run = ["run", "packed", "--", "sh", "-c", "echo $LEASEHOLD_NAME"];
    said(Run::program(&program, &run).with("LEASEHOLD_STORE", &store), "packed")?;
    let path = format!("{shown}/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let bash = Run::program("bash", &["--norc", "-c", COMPLETE]).within(tree);
    said(bash.with("LEASEHOLD_STORE", &store).with("PATH", &path), "packed")?;
    let pages = pages(&tree.join("usr/share/man"))?;
    for page in &pages {
        let words = ["-c", "man --warnings --local-file \"$1\" 2>&1 > /dev/null", "sh", page];
        said(Run::program("sh", &words).with("MANWIDTH", "100").with("LC_ALL", "C.UTF-8"), "")?;
    }
    if !pages.iter().any(|page| page.contains("leasehold-run.1")) {
        return Err(format!("the package has no page of `leasehold run`: {pages:?}"));
    }
    units(tree)
}

/// What is wrong with the units, as systemd sees them in the tree.
fn units(tree: &Path) -> Outcome {
    let analyze = "systemd-analyze";
    if !Run::program(analyze, &["--version"]).works() {
        println!("left out: the check of units: there is no {analyze}");
        return Ok(());
    }
    let (root, directory) =
        (format!("--root={}", tree.display()), tree.join("usr/lib/systemd/system"));
    for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().replace("@.", "@name.");
        let words = ["verify", "--man=no", "--recursive-errors=no", &root, &name];
        Run::program(analyze, &words).show()?;
    }
    Ok(())
}

/// The pages of the manual in the tree.
fn pages(manual: &Path) -> Outcome<Vec<String>> {
    let list = |directory: &Path| -> Outcome<Vec<PathBuf>> {
        let entries = fs::read_dir(directory);
        let entries = entries.map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    };
    let mut pages = Vec::new();
    for section in list(manual)? {
        pages.extend(list(&section)?.iter().map(|page| page.display().to_string()));
    }
    Ok(pages)
}

/// Runs something that must say just this.
fn said(run: Run, expected: &str) -> Outcome {
    let words = run.words().to_owned();
    match run.read()?.trim() {
        said if said == expected => Ok(()),
        said => Err(format!("`{words}` said {said:?}, and not {expected:?}")),
    }
}
