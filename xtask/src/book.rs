//! `cargo xtask book`: the pages as a book. mdBook builds it, and each link in it is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::prose::{SUMMARY, links, resolved};
use crate::run::{Outcome, Run, root};

/// The release of mdBook that builds the book.
const VERSION: &str = "0.5.4";

/// The settings of the book, as mdBook reads them.
const SETTINGS: &str = "docs/book.toml";

/// The folder of the book: `src` has the pages as they stand in the repository, `html` the result.
const PLACE: &str = "target/book";

/// A page of the book that mdBook makes by itself; its links begin at the root of a server.
const NOT_FOUND: &str = "404.html";

/// Attributes that lead to another page or file.
const LEADING: [&str; 3] = ["href", "src", "srcset"];

/// Builds the book, if mdBook is there, and names each link in it that leads nowhere.
pub(crate) fn run() -> Outcome {
    let Some(mdbook) = install() else { return Ok(()) };
    let place = root().join(PLACE);
    stage(&place)?;
    Run::program(&mdbook, &["build", PLACE]).show()?;
    let dead = dead_links(&read_pages(&place.join("html"))?, Path::exists);
    for link in &dead {
        eprintln!("{link}");
    }
    match dead.len() {
        0 => Ok(()),
        count => Err(format!("{count} links of the book lead nowhere")),
    }
}

/// Installs mdBook below the book, unless it is there; says so if it cannot be had.
pub(crate) fn install() -> Option<String> {
    let tools = root().join(PLACE).join("tools");
    let mdbook = tools.join("bin/mdbook").to_string_lossy().into_owned();
    let found = Run::program(&mdbook, &["--version"]).record();
    if found.is_ok_and(|(version, _)| version.trim().ends_with(VERSION)) {
        return Some(mdbook);
    }
    let package = format!("mdbook@{VERSION}");
    let words = ["install", "--locked", "--debug", "--no-default-features", "--features", "search"];
    // Only a user who looks for a mistake of mdBook needs its debug information.
    let run = Run::cargo(&[&words[..], &["--root", &tools.to_string_lossy(), &package]].concat());
    match run.with("CARGO_PROFILE_DEV_DEBUG", "0").show() {
        Ok(()) => Some(mdbook),
        Err(why) => {
            println!("left out: the book: {why}");
            None
        }
    }
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
        let named = links(&text).chain(LEADING.into_iter().flat_map(|it| values(&text, it)));
        // A page that is missing in the summary has no place in the book: its links are dead.
        let files = named.filter(|link| !link.contains("://") && !link.ends_with(".md"));
        for file in files.map(|link| resolved(&page.to_string_lossy(), link)) {
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

/// The pages below a folder, by their paths.
fn read_pages(folder: &Path) -> Outcome<BTreeMap<PathBuf, String>> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            pages.extend(read_pages(&path)?);
        } else if path.extension().is_some_and(|it| it == "html") && !path.ends_with(NOT_FOUND) {
            let text = fs::read_to_string(&path).map_err(failed)?;
            pages.insert(path, text);
        }
    }
    Ok(pages)
}

/// Links to a file that does not exist, or to a heading that its page does not have.
fn dead_links(pages: &BTreeMap<PathBuf, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let leads = |page: &Path, link: &str| {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = match file {
            "" => page.to_path_buf(),
            _ => Path::new("/").join(resolved(&page.to_string_lossy(), file)),
        };
        let has = |text: &String| values(text, "id").any(|id| id == heading);
        exists(&target) && (heading.is_empty() || pages.get(&target).is_none_or(has))
    };
    let mut dead = Vec::new();
    for (page, text) in pages {
        let all = LEADING.into_iter().flat_map(|name| values(text, name));
        let local = all.filter(|link| !link.contains(':'));
        let wrong = local.filter(|link| !leads(page, link));
        dead.extend(wrong.map(|link| format!("{}: a dead link: {link}", page.display())));
    }
    dead
}

/// The values of an attribute in a text.
fn values<'a>(text: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let begin = format!(" {attribute}=\"");
    let rests: Vec<&str> = text.split(begin.as_str()).skip(1).collect();
    rests.into_iter().filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_the_book_leads_to_a_page_that_is_there_and_to_a_heading_that_it_has() {
        let page = |links: &str| {
            let other = "<h2 id=\"there\">There</h2>".to_owned();
            BTreeMap::from([
                (PathBuf::from("/book/docs/a.html"), format!("<h1 id=\"top\">A</h1>{links}")),
                (PathBuf::from("/book/b.html"), other),
            ])
        };
        let dead = |links: &str| {
            let pages = page(links);
            dead_links(&pages, |path| pages.contains_key(path) || path.ends_with("c.yaml"))
        };
        let alive = "<a href=\"../b.html#there\"></a><a class=\"x\" href=\"#top\"></a>\
                     <img src=\"c.yaml\"><a href=\"https://d.example/#x\"></a>";
        assert_eq!(dead(alive), [""; 0]);
        for link in ["b.html", "../b.html#top", "#there", "d.svg"] {
            let found = dead(&format!("<a href=\"{link}\"></a>"));
            assert_eq!(found, [format!("/book/docs/a.html: a dead link: {link}")]);
        }
    }

    #[test]
    fn the_summary_of_the_book_names_pages_from_the_root() {
        let summary = "- [A](a.md)\n  - [B](../b/README.md)\n";
        assert_eq!(from_the_root(summary), "- [A](docs/a.md)\n  - [B](b/README.md)\n");
    }
}
