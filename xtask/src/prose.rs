//! The style of pages and comments, as far as a program can tell: their length, their links, their
//! order, and sentences that have to be read twice.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::run::root;
use crate::tree::File;

/// Pages of one screen or two, and how many lines they may have.
const LENGTHS: [(&str, usize); 3] =
    [("README.md", 150), ("CONTRIBUTING.md", 60), ("ARCHITECTURE.md", 150)];

/// Words in a sentence of a page or a comment: in a longer one a reader loses the subject.
const MAX_WORDS: usize = 25;

/// Words that hide who does what: name the holder, the waiter, the server, the client.
const VAGUE: [&str; 8] = [
    "whoever",
    "whosever",
    "in vain",
    "of its own",
    "of their own",
    "of one's own",
    "for so long",
    "so many",
];

/// The reports of measurements, which change with each measurement.
const REPORTS: &str = "evidence/benches/";

/// How comments begin, by the extension of the file.
const COMMENTS: [(&str, &str); 6] =
    [("rs", "//"), ("lua", "--"), ("sql", "--"), ("py", "#"), ("sh", "#"), ("toml", "#")];

/// The order of the book, as mdBook reads it.
pub(crate) const SUMMARY: &str = "docs/SUMMARY.md";

/// What is wrong with the pages and comments of the tree.
pub(crate) fn check(files: &[File]) -> Vec<String> {
    let mut wrong: Vec<String> =
        files.iter().filter(|file| file.is("md")).flat_map(check_page).collect();
    for (extension, mark) in COMMENTS {
        for file in files.iter().filter(|file| file.is(extension)) {
            for paragraph in paragraphs(&comments(&file.text, mark)) {
                wrong.extend(check_paragraph(&file.path, &paragraph));
            }
        }
    }
    wrong
}

/// The book names each page of `docs`, once. Its links are checked with all others.
pub(crate) fn check_book() -> Vec<String> {
    check_summary(&fs::read_to_string(root().join(SUMMARY)).unwrap_or_default())
}

fn check_summary(summary: &str) -> Vec<String> {
    let pages = fs::read_dir(root().join("docs")).into_iter().flatten().flatten();
    let names = pages.map(|page| page.file_name().to_string_lossy().into_owned());
    let pages = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md");
    let count = |name: &str| links(summary).filter(|link| *link == name).count();
    pages.filter(|name| count(name) != 1).map(|name| format!("{SUMMARY}: {name} once")).collect()
}

/// The comments of a file as a page: an empty line stands for code, and before an indented line.
fn comments(text: &str, mark: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_start().strip_prefix(mark) {
        Some(comment) => {
            let comment = comment.trim_start_matches(['/', '!']);
            let gap = if comment.starts_with("  ") { "\n" } else { "" };
            format!("{gap}{}\n", comment.trim_start())
        }
        None => "\n".to_owned(),
    });
    lines.collect()
}

fn check_page(page: &File) -> Vec<String> {
    let mut wrong = Vec::new();
    let lines = page.text.lines().count();
    let longest = LENGTHS.iter().find(|(path, _)| *path == page.path);
    if let Some((_, longest)) = longest.filter(|(_, longest)| lines > *longest) {
        wrong.push(format!("{}: {lines} lines: at most {longest}", page.path));
    }
    for link in files(&page.text).filter(|link| !root().join(resolved(&page.path, link)).exists()) {
        wrong.push(format!("{}: a dead link: {link}", page.path));
    }
    for (file, heading) in targets(&page.text).filter(|(_, heading)| !heading.is_empty()) {
        let read = || fs::read_to_string(root().join(resolved(&page.path, file)));
        let text = if file.is_empty() { page.text.clone() } else { read().unwrap_or_default() };
        if !anchors(&text).any(|anchor| anchor == heading) {
            wrong.push(format!("{}: a dead link: {file}#{heading}", page.path));
        }
    }
    if !page.path.starts_with(REPORTS) {
        for paragraph in paragraphs(&page.text) {
            wrong.extend(check_paragraph(&page.path, &paragraph));
        }
    }
    wrong
}

fn check_paragraph(path: &str, paragraph: &str) -> Vec<String> {
    let lower = format!(" {} ", paragraph.to_lowercase());
    let vague = VAGUE.iter().filter(|words| {
        let found = lower.match_indices(*words);
        found.into_iter().any(|(at, _)| {
            let ends = [lower[..at].chars().next_back(), lower[at + words.len()..].chars().next()];
            ends.iter().flatten().all(|end| !end.is_alphanumeric())
        })
    });
    let mut wrong: Vec<String> =
        vague.map(|words| format!("{path}: name who it is, not {words:?}: {paragraph}")).collect();
    if !paragraph.starts_with('|') {
        let is_end = |word: &&str| {
            word.trim_end_matches([')', '*', '"']).ends_with(['.', '!', '?', ':', ';'])
        };
        let all: Vec<&str> = paragraph.split_whitespace().collect();
        for sentence in all.split_inclusive(is_end) {
            let words = sentence.iter().filter(|word| word.contains(char::is_alphanumeric));
            if words.count() > MAX_WORDS {
                let sentence = sentence.join(" ");
                let why = format!("a sentence of more than {MAX_WORDS} words: {sentence}");
                wrong.push(format!("{path}: {why}"));
            }
        }
    }
    wrong
}

/// How a paragraph begins: an item, a row, a heading, a link, or a row about a script's arguments.
const BEGINS: [&str; 8] = ["|", "- ", "* ", "#", "[", "KEYS ", "ARGV ", "reply "];

/// Paragraphs, items of lists and rows of tables, without code.
fn paragraphs(text: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        // What is hidden from the reader is code, too: it is there for tests.
        let is_fence = ["```", "<!--", "-->"].iter().any(|fence| line.starts_with(fence));
        is_code ^= is_fence;
        let begins = BEGINS.iter().any(|begin| line.starts_with(begin))
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_code || is_fence || line.is_empty() || begins {
            paragraphs.push(String::new());
        }
        if !is_code
            && !is_fence
            && let Some(last) = paragraphs.last_mut()
        {
            last.push_str(line);
            last.push(' ');
        }
    }
    // Code is no word: lists of tests would be long sentences.
    let plain = |paragraph: &String| paragraph.split('`').step_by(2).collect::<String>();
    paragraphs.iter().map(plain).filter(|text| !text.trim().is_empty()).collect()
}

/// The files that a page leads to by relative links, also by those of HTML.
pub(crate) fn files(text: &str) -> impl Iterator<Item = &str> {
    let attributes = [" href=\"", " src=\"", " srcset=\""];
    let values = attributes.into_iter().flat_map(move |begin| text.split(begin).skip(1));
    let values = values.filter_map(|rest| rest.split('"').next());
    links(text).chain(values.filter(|value| !value.contains("://")))
}

/// The relative links of a page, without what follows a `#`.
pub(crate) fn links(text: &str) -> impl Iterator<Item = &str> {
    targets(text).map(|(file, _)| file).filter(|file| !file.is_empty())
}

/// The relative links of a page: each file, and the heading in it.
fn targets(text: &str) -> impl Iterator<Item = (&str, &str)> {
    // Code is between fences, at the odd places.
    let prose = text.split("```").step_by(2);
    let rests = prose.flat_map(|prose| prose.split("](").skip(1));
    let targets = rests.filter_map(|rest| Some(rest.split_once(')')?.0));
    let relative = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    relative.map(|target| target.split_once('#').unwrap_or((target, "")))
}

/// What stands behind the `#` of links to the headings of a page.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let lines = text.split("```").step_by(2).flat_map(str::lines);
    let headings = lines.filter(|line| line.starts_with('#'));
    let titles = headings.map(|heading| heading.trim_start_matches('#').trim_start());
    titles.map(|title| {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        title.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
    })
}

/// A link as a path from the root of the tree.
pub(crate) fn resolved(page: &str, link: &str) -> PathBuf {
    let mut resolved = PathBuf::new();
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => drop(resolved.pop()),
            Component::Normal(name) => resolved.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(path: &str, text: &str) -> Vec<String> {
        check(&[File::new(path, text)])
    }

    fn fails(path: &str, text: &str, why: &str) {
        let wrong = wrong(path, text);
        assert!(wrong.len() == 1 && wrong[0].contains(why), "{why}: {wrong:?}");
    }

    #[test]
    fn a_page_in_plain_words_passes() {
        let text = "# A\n\nThe holder releases. See [B](python.md#signals-exit-forks).\n\
                    \nSee [C](https://c.example).\n\n```sh\nwhoever in vain [x](y)\n```\n";
        assert_eq!(wrong("docs/a.md", text), [""; 0]);
    }

    #[test]
    fn each_rule_can_fail() {
        fails("README.md", &"\n".repeat(151), "151 lines");
        for link in ["no.md", "python.md#nowhere", "#nowhere"] {
            fails("docs/a.md", &format!("# A\n\n[B]({link})\n"), &format!("a dead link: {link}"));
        }
        fails("docs/a.md", "<img src=\"no.svg\">\n", "a dead link: no.svg");
        fails("docs/a.md", "Whoever waits is served.\n", "whoever");
        fails("docs/a.md", "It waits\nin vain.\n", "in vain");
        fails(
            "docs/a.md",
            &format!("{}\n", "word ".repeat(26)),
            "a sentence of more than 25 words: word word",
        );
    }

    #[test]
    fn comments_are_read_like_pages_and_code_is_not() {
        fails("a.rs", "//! A module.\n\n/// Whoever\n/// waits.\nfn f() {}\n", "whoever");
        fails("a.lua", "-- It waits in\n-- vain.\nreturn 1\n", "in vain");
        assert_eq!(wrong("a.rs", "//! A module.\n\nfn f() { so_many(\"so many\") }\n"), [""; 0]);
    }

    #[test]
    fn a_sentence_has_at_most_25_words_in_pages_and_in_comments_of_each_language() {
        let sentence = |words: usize| format!("{}end.", "word ".repeat(words - 1));
        let marks = [("md", ""), ("rs", "//"), ("sql", "--"), ("sh", "#"), ("toml", "#")];
        for (extension, mark) in marks {
            let path = format!("docs/a.{extension}");
            assert_eq!(wrong(&path, &format!("{mark} {}\n", sentence(25))), [""; 0]);
            fails(&path, &format!("{mark} {}\n", sentence(26)), "more than 25 words");
        }
    }

    #[test]
    fn what_a_page_hides_for_its_tests_is_no_sentence() {
        let hidden = "word ".repeat(26);
        assert_eq!(wrong("docs/a.md", &format!("<!-- test\n{hidden}\n-->\n")), [""; 0]);
        fails("docs/a.md", &format!("<!-- test\n-->\n{hidden}\n"), "more than 25 words");
    }

    #[test]
    fn a_full_stop_before_a_bracket_ends_a_sentence_and_so_does_a_row_of_a_script() {
        let half = "word ".repeat(15);
        assert_eq!(wrong("a.rs", &format!("// {half}({half}end.) {half}end.\n")).len(), 1);
        assert_eq!(wrong("a.rs", &format!("// ({half}end.) {half}end.\n")), [""; 0]);
        let rows = format!("-- KEYS  1 {half}\n-- ARGV  1 {half}\n-- reply {half}\n");
        assert_eq!(wrong("a.lua", &rows), [""; 0]);
    }

    #[test]
    fn the_summary_names_each_page_once() {
        let wrong = check_summary("# Summary\n\n- [Start](install.md)\n- [Start](install.md)\n");
        for page in ["install.md", "stores.md"] {
            assert!(wrong.iter().any(|why| why.contains(&format!("{page} once"))), "{wrong:?}");
        }
    }

    #[test]
    fn a_number_with_a_point_ends_no_sentence() {
        assert_eq!(wrong("docs/a.md", &format!("{}1.5 s.\n", "word ".repeat(23))), [""; 0]);
        fails("docs/a.md", &format!("{}1.5 s\n", "word ".repeat(24)), "a sentence of");
    }
}
