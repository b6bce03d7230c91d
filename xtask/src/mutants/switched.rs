//! All mutations in one program: in a copy of the crate, each function has its body once for each
//! of its mutations, and a variable says which of them runs. So the crate is compiled once, and not
//! once for each: that takes twenty times as long as its tests.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, LineColumn, TokenStream, TokenTree};
use serde::Deserialize;

use crate::outcome::Outcome;
use crate::source;

/// What the body of a mutation is marked with, and what runs if none is on.
const MARK: &str = " => /* of a mutation */ ";

/// A change that cargo-mutants would make, as it lists it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Mutation {
    pub(super) file: String,
    pub(super) name: String,
    replacement: String,
    span: Span,
    function: Option<Function>,
}

#[derive(Clone, Debug, Deserialize)]
struct Function {
    span: Span,
    return_type: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: Place,
    end: Place,
}

/// Both counted from 1, in characters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    line: usize,
    column: usize,
}

impl Mutation {
    /// Whether it can be switched. What stands in no function is computed by the compiler, and of
    /// what gives `impl` something, each body gives something else.
    pub(super) fn can_be_switched(&self) -> bool {
        self.function.as_ref().is_some_and(|function| !function.return_type.contains("impl "))
    }
}

/// The source of a file with those of its mutations, each behind its number.
///
/// A function that the compiler may run is none any more: it could not ask which mutation is on.
pub(super) fn source(text: &str, mutations: &[(usize, &Mutation)]) -> Outcome<String> {
    let mut bodies = BTreeMap::new();
    find_bodies(source::tokens(text)?, &mut bodies);
    let mut functions = BTreeMap::<Span, Vec<(usize, &Mutation)>>::new();
    for (number, mutation) in mutations {
        if let Some(function) = &mutation.function {
            functions.entry(function.span).or_default().push((*number, mutation));
        }
    }
    let (mut switched, mut done) = (String::new(), 0);
    for (span, mutations) in functions {
        let unknown = || format!("{}: no function ends at {:?}", mutations[0].1.file, span.end);
        let body = *bodies.get(&span.end).ok_or_else(unknown)?;
        let [start, body, end] = [span.start, body, span.end].map(|place| offset(text, place));
        if start < done {
            return Err(unknown() + " that stands in no other");
        }
        switched += &text[done..start];
        switched += &text[start..body].replacen("const fn", "fn", 1);
        switched += "{ match crate::mutation() {\n";
        for (number, Mutation { span, replacement, .. }) in mutations {
            let [from, to] = [span.start, span.end].map(|place| offset(text, place));
            let (before, after) = (&text[body..from], &text[to..end]);
            switched += &format!("{number}{MARK}{before}{replacement} {after}\n");
        }
        switched += &format!("_{MARK}{}\n}} }}", &text[body..end]);
        done = end;
    }
    Ok(switched + &text[done..])
}

/// The number of the mutation whose body stands in a line.
pub(super) fn mutation_at(source: &str, line: usize) -> Option<usize> {
    let marked = source.lines().take(line).filter_map(|line| line.split_once(MARK));
    marked.last().and_then(|(number, _)| number.parse().ok())
}

/// What tells which mutation is on, and ends the program as soon as a test has failed.
pub(super) const SWITCH: &str = r#"
/// The number of the mutation that is on.
pub fn mutation() -> usize {
    static ON: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
    *ON.get_or_init(|| {
        std::panic::set_hook(Box::new(|_| std::process::exit(101)));
        std::env::var("MUTATION").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
    })
}
"#;

/// Where what is in braces begins, by where it ends.
fn find_bodies(tokens: TokenStream, bodies: &mut BTreeMap<Place, Place>) {
    for token in tokens {
        if let TokenTree::Group(group) = token {
            if group.delimiter() == Delimiter::Brace {
                let span = group.span();
                bodies.insert(place(span.end()), place(span.start()));
            }
            find_bodies(group.stream(), bodies);
        }
    }
}

fn place(at: LineColumn) -> Place {
    Place { line: at.line, column: at.column + 1 }
}

/// Where a place is in a text, in bytes.
fn offset(text: &str, place: Place) -> usize {
    let before: usize = text.split_inclusive('\n').take(place.line - 1).map(str::len).sum();
    let columns = text[before..].chars().take(place.column - 1);
    before + columns.map(char::len_utf8).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "/// µ\npub const fn sum(a: u8) -> u8 {\n    a + 1 // }\n}\n";

    fn mutation(replacement: &str, from: usize, to: usize) -> Mutation {
        let place = |line, column| Place { line, column };
        Mutation {
            file: "a.rs".into(),
            name: replacement.into(),
            replacement: replacement.into(),
            span: Span { start: place(3, from), end: place(3, to) },
            function: Some(Function {
                span: Span { start: place(2, 1), end: place(4, 2) },
                return_type: "-> u8".into(),
            }),
        }
    }

    #[test]
    fn bodies_that_differ_in_type_are_not_switched() {
        let mut mutation = mutation("-", 7, 8);
        assert!(mutation.can_be_switched());
        mutation.function.as_mut().unwrap().return_type = "-> impl Iterator<Item = u8>".into();
        assert!(!mutation.can_be_switched());
        mutation.function = None;
        assert!(!mutation.can_be_switched());
    }

    #[test]
    fn a_function_has_a_body_for_each_mutation_and_one_for_none() {
        let (minus, zero) = (mutation("-", 7, 8), mutation("0", 5, 10));
        let switched = source(TEXT, &[(7, &minus), (9, &zero)]).unwrap();
        let expected = "/// µ\npub fn sum(a: u8) -> u8 { match crate::mutation() {\n\
                        7 => /* of a mutation */ {\n    a -  1 // }\n}\n\
                        9 => /* of a mutation */ {\n    0  // }\n}\n\
                        _ => /* of a mutation */ {\n    a + 1 // }\n}\n} }\n";
        assert_eq!(switched, expected);
        let at: Vec<_> = (1..13).map(|line| mutation_at(&switched, line)).collect();
        let [seven, nine] = [Some(7), Some(9)];
        let none = None;
        assert_eq!(at[..5], [none, none, seven, seven, seven]);
        assert_eq!(at[5..], [nine, nine, nine, none, none, none, none]);
    }

    #[test]
    fn a_file_without_mutations_stays_as_it_is() {
        assert_eq!(source(TEXT, &[]).unwrap(), TEXT);
    }
}
