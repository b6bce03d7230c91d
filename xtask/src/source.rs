//! Rust source, taken apart just far enough: code, comments, functions.

/// A Rust file in which every byte is either code or comment, and literals are neither.
#[derive(Debug)]
pub(crate) struct Source {
    /// The text with comments and the insides of literals blanked out.
    pub(crate) code: String,
    /// The text with everything but comments blanked out.
    pub(crate) comments: String,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// Where its `fn` stands, counted from 1.
    pub(crate) line: usize,
    /// From its `fn` to the brace that ends it.
    pub(crate) lines: usize,
}

impl Source {
    /// Takes a file apart.
    pub(crate) fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let (mut code, mut comments) = (blank(bytes), blank(bytes));
        let mut at = 0;
        while at < bytes.len() {
            let (kind, end) = piece(bytes, at);
            match kind {
                Piece::Code => code[at..end].copy_from_slice(&bytes[at..end]),
                Piece::Comment => comments[at..end].copy_from_slice(&bytes[at..end]),
                Piece::Literal => code[at] = bytes[at],
            }
            at = end;
        }
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: text(code), comments: text(comments) }
    }

    /// The code without what is compiled for tests only.
    pub(crate) fn without_tests(&self) -> String {
        const MARK: &str = "#[cfg(test)]";
        let mut code = self.code.clone();
        while let Some(begin) = code.find(MARK) {
            let body = code[begin..].find(['{', ';']).map_or(code.len(), |at| begin + at);
            let end = if code[body..].starts_with('{') { closing(&code, body) } else { body };
            let end = (end + 1).min(code.len());
            let gap = String::from_utf8_lossy(&blank(&code.as_bytes()[begin..end])).into_owned();
            code.replace_range(begin..end, &gap);
        }
        code
    }

    /// Its functions that have a body, in the order of the text.
    pub(crate) fn functions(&self) -> Vec<Function<'_>> {
        let code = &self.code;
        words(code)
            .filter(|(_, word)| *word == "fn")
            .filter_map(|(at, _)| function(code, at))
            .collect()
    }
}

/// Every word of the code (identifiers, keywords, numbers) and where it begins.
pub(crate) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(is_word)?;
        let begin = at;
        at += code[at..].find(|c| !is_word(c)).unwrap_or(code.len() - at);
        Some((begin, &code[begin..at]))
    })
}

/// The line, counted from 1, of a place in a text.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn function(code: &str, at: usize) -> Option<Function<'_>> {
    let after = at + "fn".len();
    let (begin, name) = words(&code[after..]).next()?;
    if !code[after..after + begin].trim().is_empty() {
        return None; // a function pointer: `fn(u64)`
    }
    let mut depth = 0_u32;
    let body = code[after..].find(|c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => (),
        }
        depth == 0 && matches!(c, '{' | ';')
    })? + after;
    if code[body..].starts_with(';') {
        return None;
    }
    let lines = code[at..closing(code, body)].matches('\n').count() + 1;
    Some(Function { name, line: line_of(code, at), lines })
}

/// Where the brace that is opened at `open` is closed.
fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_u32;
    let end = code[open..].find(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => (),
        }
        depth == 0
    });
    end.map_or(code.len(), |end| open + end)
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    Code,
    Comment,
    Literal,
}

/// What begins at `at`, and where it ends.
fn piece(bytes: &[u8], at: usize) -> (Piece, usize) {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => {
            (Piece::Comment, at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()))
        }
        [b'/', b'*', ..] => (Piece::Comment, at + block_comment(rest)),
        [b'"', ..] => (Piece::Literal, at + quoted(rest, b'"')),
        [b'\'', b'\\', ..] => (Piece::Literal, at + quoted(rest, b'\'')),
        [b'\'', ..] => match character(rest) {
            Some(length) => (Piece::Literal, at + length),
            None => (Piece::Code, at + 1), // a lifetime
        },
        [first, ..] if first.is_ascii_alphanumeric() || *first == b'_' => {
            let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
            let length = rest.iter().position(|b| !is_word(b)).unwrap_or(rest.len());
            match raw_string(&rest[..length], &rest[length..]) {
                Some(raw) => (Piece::Literal, at + length + raw),
                None => (Piece::Code, at + length),
            }
        }
        _ => (Piece::Code, at + 1),
    }
}

/// The length of a block comment; they nest.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a literal between quotes, with backslashes in it.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// The length of `'c'`; a lifetime has no second quote after its first character.
fn character(rest: &[u8]) -> Option<usize> {
    let length = rest.iter().skip(2).position(|b| b & 0xC0 != 0x80)? + 2;
    (rest.get(length) == Some(&b'\'')).then_some(length + 1)
}

/// The length of what follows `r`, `br` or `cr` if that is a raw string.
fn raw_string(prefix: &[u8], rest: &[u8]) -> Option<usize> {
    if !matches!(prefix, b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = rest.iter().position(|&b| b != b'#')?;
    if rest[hashes] != b'"' {
        return None; // a raw identifier
    }
    let end: Vec<u8> = [b"\"".as_slice(), &rest[..hashes]].concat();
    let inside = &rest[hashes + 1..];
    let length = inside.windows(end.len()).position(|window| window == end)?;
    Some(hashes + 1 + length + end.len())
}

/// Spaces in place of everything but the ends of lines.
fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| if byte == b'\n' { byte } else { b' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_literals_are_told_apart() {
        let text = r##"let a = "// no"; // yes é "b"
let c = r#"/* "no" */"#; /* yes /* still */ yes */ let d = '"'; let e = '\''; fn f<'a>() {}"##;
        let source = Source::new(text);
        assert!(!source.code.contains("no") && !source.code.contains("yes"));
        assert!(source.code.contains("let e") && source.code.contains("fn f<'a>() {}"));
        assert!(source.comments.contains("// yes é \"b\""));
        assert!(source.comments.contains("/* yes /* still */ yes */"));
        assert!(!source.comments.contains("no") && !source.comments.contains("let"));
        assert_eq!((source.code.len(), source.comments.len()), (text.len(), text.len()));
    }

    #[test]
    fn functions_are_measured_from_their_word_to_their_last_brace() {
        let text = "trait T { fn none(&self) -> [u8; 3]; }\n\
                    type P = fn(u64);\n\
                    fn one() { let brace = '{'; }\n\
                    pub fn three(x: [u8; 2])\n{\n}\n";
        let source = Source::new(text);
        let one = Function { name: "one", line: 3, lines: 1 };
        let three = Function { name: "three", line: 4, lines: 3 };
        assert_eq!(source.functions(), [one, three]);
    }

    #[test]
    fn what_is_compiled_for_tests_only_can_be_left_out() {
        let text =
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { } }\n#[cfg(test)]\nmod t;\nfn c() {}";
        let code = Source::new(text).without_tests();
        assert!(code.contains("fn a") && code.contains("fn c"));
        assert!(!code.contains("fn b") && !code.contains("mod t"));
        assert_eq!(code.len(), text.len());
    }
}
