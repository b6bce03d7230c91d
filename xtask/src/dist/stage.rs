//! The tree of files below `/usr`: the program, and what it says of itself.

use std::fs;
use std::path::Path;

use super::files::write;
use crate::command::Run;
use crate::outcome::Outcome;

/// Completion scripts: the shell, and where its system-wide scripts are.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/leasehold"),
    ("fish", "share/fish/vendor_completions.d/leasehold.fish"),
    ("zsh", "share/zsh/vendor-completions/_leasehold"),
];

/// Pages that are about no command.
const TOPICS: [&str; 2] = ["redis", "store"];

/// What is copied from the repository, and into which directory.
const FILES: [(&str, &str); 9] = [
    ("CHANGELOG.md", "share/doc/leasehold"),
    ("GUARANTEES.md", "share/doc/leasehold"),
    ("LICENSE-APACHE", "share/doc/leasehold"),
    ("LICENSE-MIT", "share/doc/leasehold"),
    ("README.md", "share/doc/leasehold"),
    ("packaging/examples/nightly-report.service", "share/doc/leasehold/examples"),
    ("packaging/examples/nightly-report.timer", "share/doc/leasehold/examples"),
    ("packaging/leasehold-elect@.service", "lib/systemd/system"),
    ("packaging/leasehold-serve.service", "lib/systemd/system"),
];

/// Makes the tree. Scripts and pages are what the program that was built prints.
pub(super) fn stage(root: &Path, program: &Path, tree: &Path) -> Outcome {
    copy(program, &tree.join("bin/leasehold"))?;
    for (file, directory) in FILES {
        let name = Path::new(file).file_name().unwrap_or_default();
        copy(&root.join(file), &tree.join(directory).join(name))?;
    }
    let program = program.display().to_string();
    let said = |words: &[&str]| Run::program(&program, words).read();
    for (shell, place) in COMPLETIONS {
        write(&tree.join(place), &said(&["completions", shell])?)?;
    }
    write(&tree.join("share/man/man1/leasehold.1"), &said(&["man"])?)?;
    // The program tells which pages it has, as it tells a shell.
    for line in said(&["@complete", "man", ""])?.lines() {
        let page = line.split('\t').next().unwrap_or_default();
        let section = if TOPICS.contains(&page) { 7 } else { 1 };
        let place = format!("share/man/man{section}/leasehold-{page}.{section}");
        write(&tree.join(place), &said(&["man", page])?)?;
    }
    Ok(())
}

/// Copies a file with its mode, and makes the directories that lead to it.
fn copy(from: &Path, to: &Path) -> Outcome {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    let copied = made.and_then(|()| fs::copy(from, to));
    copied.map(drop).map_err(|error| format!("{}: {error}", from.display()))
}
