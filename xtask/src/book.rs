//! `cargo xtask book`: the pages as a book, which mdBook builds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::prose::{SUMMARY, files, links, resolved};
use crate::run::{Outcome, Run, root};

/// The release of mdBook that builds the book.
const VERSION: &str = "0.5.4";

/// The settings of the book, as mdBook reads them.
const SETTINGS: &str = "docs/book.toml";

/// The folder of the book: `src` has the pages as they stand in the repository, `html` the result.
const PLACE: &str = "target/book";

/// Builds the book.
pub(crate) fn run() -> Outcome {
    let mdbook = install()?;
    stage(&root().join(PLACE))?;
    Run::program(&mdbook, &["build", PLACE]).show()
}

/// Installs mdBook below the book, unless it is there.
fn install() -> Outcome<String> {
    let tools = root().join(PLACE).join("tools");
    let mdbook = tools.join("bin/mdbook").to_string_lossy().into_owned();
    let found = Run::program(&mdbook, &["--version"]).record();
    if found.is_ok_and(|(version, _)| version.trim().ends_with(VERSION)) {
        return Ok(mdbook);
    }
    let package = format!("mdbook@{VERSION}");
    let words = ["install", "--locked", "--debug", "--no-default-features", "--features", "search"];
    // Only a user who looks for a mistake of mdBook needs its debug information.
    let run = Run::cargo(&[&words[..], &["--root", &tools.to_string_lossy(), &package]].concat());
    run.with("CARGO_PROFILE_DEV_DEBUG", "0").show().map(|()| mdbook)
}

/// Copies the pages that the summary names, and the files that they lead to, into `src`.
fn stage(place: &Path) -> Outcome {
    let failed = |error: std::io::Error| format!("{PLACE}: {error}");
    for old in ["src", "html"].map(|folder| place.join(folder)).iter().filter(|it| it.exists()) {
        fs::remove_dir_all(old).map_err(failed)?;
    }
    let copy = |path: &Path| -> Outcome {
        let to = place.join("src").join(path);
        fs::create_dir_all(to.parent().unwrap_or(place)).map_err(failed)?;
        let copied = fs::copy(root().join(path), to);
        copied.map(|_| ()).map_err(|error| format!("{}: {error}", path.display()))
    };
    let summary = fs::read_to_string(root().join(SUMMARY)).map_err(failed)?;
    for page in links(&summary).map(|link| resolved(SUMMARY, link)) {
        copy(&page)?;
        let text = fs::read_to_string(root().join(&page)).map_err(failed)?;
        // A page that is missing in the summary has no place in the book.
        let others = files(&text).filter(|link| !link.ends_with(".md"));
        for file in others.map(|link| resolved(&page.to_string_lossy(), link)) {
            copy(&file)?;
        }
    }
    fs::write(place.join("src/SUMMARY.md"), from_the_root(&summary)).map_err(failed)?;
    fs::copy(root().join(SETTINGS), place.join("book.toml")).map(|_| ()).map_err(failed)
}

/// The summary with links that begin at the root of the repository.
fn from_the_root(summary: &str) -> String {
    let links: BTreeSet<&str> = links(summary).collect();
    links.into_iter().fold(summary.to_owned(), |summary, link| {
        let path = resolved(SUMMARY, link);
        summary.replace(&format!("]({link})"), &format!("]({})", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_the_book_names_pages_from_the_root() {
        let summary = "- [A](a.md)\n  - [B](../b/README.md)\n";
        assert_eq!(from_the_root(summary), "- [A](docs/a.md)\n  - [B](b/README.md)\n");
    }
}
