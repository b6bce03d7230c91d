//! Manual pages: roff from the Markdown of a manual, and from the text of help.
//!
//! Of Markdown it knows what manuals use: headings, paragraphs, tables, lists, blocks of code, and
//! within a line code and emphasis.

use std::fmt::Write as _;

/// A page from a manual whose first line is its title.
pub(crate) fn page(name: &str, about: &str, manual: &str) -> String {
    let mut page = format!(".TH {} 7\n.SH NAME\n{} \\- {}\n", name, text(name), text(about));
    let body = manual.split_once('\n').map_or("", |(_title, body)| body);
    let intro = body.split("\n## ").next().unwrap_or_default();
    let _ = write!(page, ".SH DESCRIPTION\n{}", blocks(intro));
    for (title, body) in sections(body) {
        page.push_str(&section(title, &blocks(body)));
    }
    page
}

/// One section of a manual, as a section of a page.
pub(crate) fn section_of(manual: &str, title: &str) -> String {
    let found = sections(manual).into_iter().find(|(other, _)| *other == title);
    found.map(|(title, body)| section(title, &blocks(body))).unwrap_or_default()
}

/// A section of a page.
pub(crate) fn section(title: &str, body: &str) -> String {
    format!(".SH \"{}\"\n{body}", text(&title.to_uppercase()))
}

/// Text of help: what is indented stays as it is, all else is filled.
pub(crate) fn filled(help: &str) -> String {
    let mut roff = String::new();
    for paragraph in help.split("\n\n") {
        roff.push_str(".PP\n");
        let mut is_verbatim = false;
        for line in paragraph.lines() {
            if line.starts_with("  ") != is_verbatim {
                is_verbatim = !is_verbatim;
                roff.push_str(if is_verbatim { ".nf\n" } else { ".fi\n" });
            }
            roff.push_str(&at_line_start(text(line)));
        }
        if is_verbatim {
            roff.push_str(".fi\n");
        }
    }
    roff
}

/// Lines as they are.
pub(crate) fn verbatim(lines: &str) -> String {
    let lines: String = lines.lines().map(|line| at_line_start(text(line))).collect();
    format!(".PP\n.nf\n{lines}.fi\n")
}

/// Any text, so that it is shown as it stands and can be copied.
pub(crate) fn text(plain: &str) -> String {
    let mut roff = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '\\' => roff.push_str("\\e"),
            '-' => roff.push_str("\\-"),
            '\'' => roff.push_str("\\(aq"),
            '`' => roff.push_str("\\(ga"),
            '^' => roff.push_str("\\(ha"),
            '~' => roff.push_str("\\(ti"),
            c => roff.push(c),
        }
    }
    ascii(&roff)
}

/// A page that every roff reads, whatever it takes its input for.
pub(crate) fn ascii(page: &str) -> String {
    let mut roff = String::with_capacity(page.len());
    for c in page.chars() {
        match c {
            c if c.is_ascii() => roff.push(c),
            c => drop(write!(roff, "\\[u{:04X}]", u32::from(c))),
        }
    }
    roff
}

/// A line that roff does not take for a request.
fn at_line_start(line: String) -> String {
    let escape = if line.starts_with('.') { "\\&" } else { "" };
    format!("{escape}{line}\n")
}

/// The sections of a manual, with their titles.
fn sections(manual: &str) -> Vec<(&str, &str)> {
    let parts = manual.split("\n## ").skip(1);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

/// Paragraphs, tables, lists and blocks of code.
fn blocks(markdown: &str) -> String {
    let mut roff = String::new();
    let mut lines = markdown.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("```") {
            let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            roff.push_str(&verbatim(&code.join("\n")));
        } else if line.starts_with('|') {
            let mut rows = vec![cells(line)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(row));
            }
            roff.push_str(&table(&rows));
        } else if let Some(item) = line.strip_prefix("- ") {
            let mut item = item.to_owned();
            while let Some(rest) = lines.next_if(|line| line.starts_with("  ")) {
                let _ = write!(item, " {}", rest.trim());
            }
            let _ = write!(roff, ".IP \\(bu 2\n{}", at_line_start(inline(&item)));
        } else if !line.is_empty() {
            let is_more = |line: &&str| {
                !(line.is_empty() || ["|", "```", "- "].iter().any(|it| line.starts_with(it)))
            };
            let mut paragraph = line.to_owned();
            while let Some(rest) = lines.next_if(is_more) {
                let _ = write!(paragraph, " {rest}");
            }
            let _ = write!(roff, ".PP\n{}", at_line_start(inline(&paragraph)));
        }
    }
    roff
}

/// The cells of a row of a table; `\|` is a bar within one.
fn cells(row: &str) -> Vec<String> {
    let row = row.trim().trim_matches('|').replace("\\|", "\u{0}");
    row.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}

/// Each row under its first cell; what is in a third column is named by that column's title.
fn table(rows: &[Vec<String>]) -> String {
    let mut roff = String::new();
    let [head, _line, rows @ ..] = rows else { return roff };
    for row in rows {
        let [term, rest @ ..] = &row[..] else { continue };
        let mut said = rest.first().map(|cell| inline(cell)).unwrap_or_default();
        for (title, cell) in head.iter().skip(2).zip(rest.iter().skip(1)) {
            let _ = write!(said, " ({title}: {})", inline(cell));
        }
        let _ = write!(roff, ".TP\n{}{}", at_line_start(inline(term)), at_line_start(said));
    }
    roff
}

/// Code and emphasis within a line.
fn inline(markdown: &str) -> String {
    let mut roff = String::new();
    for (number, part) in markdown.split('`').enumerate() {
        if number % 2 == 1 {
            let _ = write!(roff, "\\fB{}\\fR", text(part));
            continue;
        }
        for (number, words) in part.split('*').enumerate() {
            match number % 2 {
                1 => drop(write!(roff, "\\fI{}\\fR", text(words))),
                _ => roff.push_str(&text(words)),
            }
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_becomes_a_page() {
        let manual = [
            "# Title\n\nSay\n`a-b` and\n*more*.\n",
            "\n## One\n\n| key | is | default |\n|---|---|---|\n| `a` | x \\| y | `1` |\n",
            "\n- first\n  goes on …\n\n```sh\n.x 'y' \\\n```\n## Two\n\nend\n",
        ];
        let manual = &manual.concat();
        let page = page("name", "what it is", manual);
        for words in [
            ".TH name 7\n.SH NAME\nname \\- what it is\n",
            ".SH DESCRIPTION\n.PP\nSay \\fBa\\-b\\fR and \\fImore\\fR.\n",
            ".SH \"ONE\"\n.TP\n\\fBa\\fR\nx | y (default: \\fB1\\fR)\n",
            ".IP \\(bu 2\nfirst goes on \\[u2026]\n",
            ".PP\n.nf\n\\&.x \\(aqy\\(aq \\e\n.fi\n",
            ".SH \"TWO\"\n.PP\nend\n",
        ] {
            assert!(page.contains(words), "{words:?}: {page}");
        }
        assert_eq!(section_of(manual, "Two"), ".SH \"TWO\"\n.PP\nend\n");
    }

    #[test]
    fn help_is_filled_but_for_what_is_indented() {
        let help = "One\nline:\n  as it is\nmore\n\nnext";
        let roff = ".PP\nOne\nline:\n.nf\n  as it is\n.fi\nmore\n.PP\nnext\n";
        assert_eq!(filled(help), roff);
    }
}
