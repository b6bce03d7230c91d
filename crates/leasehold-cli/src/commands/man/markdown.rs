//! Turns manuals in Markdown into manual pages.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use roff::{Inline, Roff, bold, italic, roman};

/// Appends headings, paragraphs, tables, lists and blocks of code to a page. A row of a table
/// becomes a paragraph under its first cell, and a third column is introduced by its title.
pub(super) fn append(page: &mut Roff, markdown: &str) {
    let (mut line, mut cells): (Vec<Inline>, Vec<Vec<Inline>>) = Default::default();
    let (mut titles, mut is_emphasis) = (Vec::new(), false);
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Text(text) if is_emphasis => line.push(italic(&*text)),
            Event::Text(text) => line.push(roman(&*text)),
            Event::Code(text) => line.push(bold(&*text)),
            Event::SoftBreak => line.push(roman(" ")),
            Event::Start(Tag::Emphasis) => is_emphasis = true,
            Event::End(TagEnd::Emphasis) => is_emphasis = false,
            Event::End(TagEnd::Heading(_)) => {
                let title = words(&std::mem::take(&mut line)).to_uppercase();
                page.control("SH", [title.as_str()]);
            }
            Event::Start(Tag::Paragraph) => {
                page.control("PP", []);
            }
            Event::Start(Tag::Item) => {
                page.control("IP", ["\\(bu", "2"]);
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item) => {
                page.text(std::mem::take(&mut line));
            }
            Event::Start(Tag::CodeBlock(_)) => {
                page.control("PP", []).control("nf", []);
            }
            Event::End(TagEnd::CodeBlock) => {
                let code = words(&std::mem::take(&mut line));
                page.text([roman(code.trim_end())]).control("fi", []);
            }
            Event::End(TagEnd::TableCell) => cells.push(std::mem::take(&mut line)),
            Event::End(TagEnd::TableHead) => {
                titles = cells.drain(..).map(|title| words(&title)).collect();
            }
            Event::End(TagEnd::TableRow) => {
                let mut row = std::mem::take(&mut cells).into_iter();
                page.control("TP", []).text(row.next().unwrap_or_default());
                let mut said = row.next().unwrap_or_default();
                for (title, cell) in titles.iter().skip(2).zip(row) {
                    said.push(roman(format!(" ({title}: ")));
                    said.extend(cell);
                    said.push(roman(")"));
                }
                page.text(said);
            }
            _ => {}
        }
    }
}

fn words(line: &[Inline]) -> String {
    let texts = line.iter().map(|part| match part {
        Inline::Roman(text) | Inline::Italic(text) | Inline::Bold(text) => text.as_str(),
        Inline::LineBreak => "\n",
    });
    texts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_becomes_a_page() {
        let manual = [
            "Say\n`a-b` and\n*more*.\n",
            "\n## One\n\n| key | is | default |\n|---|---|---|\n| `a` | x \\| y | `1` |\n",
            "\n- first\n  goes on\n\n```sh\n.x \\\n```\n## Two\n\nend\n",
        ];
        let mut page = Roff::new();
        append(&mut page, &manual.concat());
        let page = page.to_roff();
        for words in [
            ".PP\nSay \\fBa\\-b\\fR and \\fImore\\fR.\n",
            ".SH ONE\n.TP\n\\fBa\\fR\nx | y (default: \\fB1\\fR)\n",
            ".IP \\(bu 2\nfirst goes on\n",
            ".PP\n.nf\n\\&.x \\\\\n.fi\n",
            ".SH TWO\n.PP\nend\n",
        ] {
            assert!(page.contains(words), "{words:?}: {page}");
        }
    }
}
