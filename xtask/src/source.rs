//! Rust source as tokens: functions, attributes and macro calls, wherever they stand.

use proc_macro2::{Delimiter, Ident, TokenStream, TokenTree};

use crate::outcome::Outcome;

/// The tokens of a file: those between one pair of brackets, or outside of all, are one sequence.
#[derive(Debug)]
pub(crate) struct Source {
    sequences: Vec<Vec<TokenTree>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// Where its `fn` stands, counted from 1.
    pub(crate) line: usize,
    /// From its `fn` to the brace that ends it.
    pub(crate) lines: usize,
}

/// An attribute of an item, or of the file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) line: usize,
    /// What stands in its brackets.
    pub(crate) text: String,
}

impl Source {
    /// Takes a file apart.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        let mut sequences = Vec::new();
        collect(tokens(text)?, &mut sequences);
        Ok(Self { sequences })
    }

    /// Every function that has a body.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Function> {
        self.tails().filter_map(function)
    }

    /// Every attribute, doc comments included.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = Attribute> {
        self.tails().filter_map(|tail| {
            let (TokenTree::Punct(hash), [_, rest @ ..]) = (tail.first()?, tail) else {
                return None;
            };
            let rest = match rest {
                [TokenTree::Punct(inner), rest @ ..] if inner.as_char() == '!' => rest,
                rest => rest,
            };
            let body = in_brackets(rest.first()?, Delimiter::Bracket)?;
            let line = hash.span().start().line;
            (hash.as_char() == '#').then(|| Attribute { line, text: body.to_string() })
        })
    }

    /// The lines in which this macro is called.
    pub(crate) fn calls_of<'a>(&'a self, called: &'a str) -> impl Iterator<Item = usize> + 'a {
        self.tails().filter_map(move |tail| match tail {
            [TokenTree::Ident(word), TokenTree::Punct(bang), ..]
                if word == called && bang.as_char() == '!' =>
            {
                Some(word.span().start().line)
            }
            _ => None,
        })
    }

    /// What begins at each token.
    fn tails(&self) -> impl Iterator<Item = &[TokenTree]> {
        self.sequences.iter().flat_map(|sequence| (0..sequence.len()).map(|at| &sequence[at..]))
    }
}

/// The tokens of a file.
pub(crate) fn tokens(text: &str) -> Outcome<TokenStream> {
    text.parse().map_err(|error: proc_macro2::LexError| {
        format!("{}: no Rust: {error}", error.span().start().line)
    })
}

/// What stands between these brackets, if the token is such a group.
pub(crate) fn in_brackets(token: &TokenTree, brackets: Delimiter) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == brackets => Some(group.stream()),
        _ => None,
    }
}

/// The item that begins here: up to its brace that is closed, or its semicolon.
pub(crate) fn item(tail: &[TokenTree]) -> &[TokenTree] {
    let is_end = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        token => in_brackets(token, Delimiter::Brace).is_some(),
    };
    let end = tail.iter().position(is_end).map_or(tail.len(), |end| end + 1);
    &tail[..end]
}

fn collect(tokens: TokenStream, sequences: &mut Vec<Vec<TokenTree>>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    for token in &tokens {
        if let TokenTree::Group(group) = token {
            collect(group.stream(), sequences);
        }
    }
    sequences.push(tokens);
}

fn function(tail: &[TokenTree]) -> Option<Function> {
    let [TokenTree::Ident(word), TokenTree::Ident(name), ..] = tail else { return None };
    let end = item(tail).last().filter(|end| in_brackets(end, Delimiter::Brace).is_some())?;
    let line = line_of(word);
    let lines = end.span().end().line - line + 1;
    (word == "fn").then(|| Function { name: name.to_string(), line, lines })
}

fn line_of(word: &Ident) -> usize {
    word.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_from_their_word_to_their_last_brace() {
        let text = "trait T { fn none(&self) -> [u8; 3]; }\n\
                    type P = fn(u64);\n\
                    fn one() { let brace = '{'; } // fn comment() {}\n\
                    pub fn three(x: [u8; 2])\n{\n}\n";
        let function = |name: &str, line, lines| Function { name: name.to_owned(), line, lines };
        let found: Vec<_> = Source::parse(text).unwrap().functions().collect();
        assert_eq!(found, [function("one", 3, 1), function("three", 4, 3)]);
    }

    #[test]
    fn attributes_and_macro_calls_are_found_wherever_they_stand_but_not_in_literals() {
        let text = "#![forbid(unsafe_code)]\nfn f() {\n  #[allow(dead_code)]\n  \
                    fn g() { todo!() }\n  let s = \"#[expect(x)] todo!()\";\n}\n";
        let source = Source::parse(text).unwrap();
        let attribute = |line, text: &str| Attribute { line, text: text.to_owned() };
        let mut found: Vec<_> = source.attributes().collect();
        found.sort_by_key(|attribute| attribute.line);
        let (forbid, allow) = ("forbid (unsafe_code)", "allow (dead_code)");
        assert_eq!(found, [attribute(1, forbid), attribute(3, allow)]);
        assert_eq!(source.calls_of("todo").collect::<Vec<_>>(), [4]);
    }

    #[test]
    fn what_is_no_rust_is_refused_with_its_line() {
        assert!(Source::parse("fn f() {\n  \"").is_err_and(|why| why.contains("no Rust")));
    }
}
