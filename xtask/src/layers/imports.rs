//! What one file imports: the paths of its `use` items, of its expressions and of its macro calls.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

use crate::outcome::Outcome;
use crate::source::{in_brackets, item, tokens};

/// A module's name, or that of something in it, as seen from the root of its crate.
pub(super) type Path = Vec<String>;

/// What a file says about other files of its crate. What is compiled for tests only is left out.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Every path that begins at the root, at the module itself, above it or at a module in it, and
    /// its line.
    pub(super) paths: Vec<(usize, Path)>,
    /// Names that the module passes on (`pub use`): the line, and where they come from.
    pub(super) passed_on: BTreeMap<String, (usize, Path)>,
    /// Modules in it that are compiled for tests only.
    pub(super) test_modules: Vec<Path>,
    /// How many lines are compiled for tests only.
    pub(super) test_lines: usize,
    /// Every word outside of `use` items.
    words: BTreeSet<String>,
}

impl Imports {
    /// Reads the file that holds this module.
    pub(super) fn of(text: &str, module: &Path) -> Outcome<Self> {
        let mut imports = Self::default();
        imports.read(tokens(text)?, module, &BTreeSet::new());
        // A name that is only passed on is a line in a table of contents, and no dependency.
        let used = imports.passed_on.iter().filter(|(name, _)| imports.words.contains(*name));
        let used: Vec<_> = used.map(|(_, from)| from.clone()).collect();
        imports.paths.extend(used);
        Ok(imports)
    }

    /// Reads one sequence of tokens; `children` are the modules whose names are in scope.
    fn read(&mut self, stream: TokenStream, module: &Path, children: &BTreeSet<String>) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut children = children.clone();
        children.extend(tokens.windows(2).filter_map(|pair| match pair {
            [TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => Some(text(name)),
            _ => None,
        }));
        let scope = Scope { module, children: &children };
        let (mut at, mut is_public) = (0, false);
        while at < tokens.len() {
            let length = self.piece(&tokens[at..], &scope, is_public);
            is_public = is_word(&tokens[at], "pub");
            // After a name and `::` comes no path, but the rest of one.
            let rest = tokens.iter().skip(at + length).take_while(|token| is_colon(token)).count();
            at += length + if rest == 2 { 3 } else { 0 };
        }
    }

    /// Reads what the tokens begin with, and returns how many tokens that is.
    fn piece(&mut self, tail: &[TokenTree], scope: &Scope<'_>, is_public: bool) -> usize {
        match tail {
            [first, body, rest @ ..] if is_test_attribute(first, body) => {
                let item = item(rest);
                self.leave_out(first, item, scope);
                2 + item.len()
            }
            [TokenTree::Ident(word), TokenTree::Ident(name), TokenTree::Group(body), ..]
                if word == "mod" =>
            {
                let inner = [scope.module.clone(), vec![text(name)]].concat();
                self.read(body.stream(), &inner, &BTreeSet::new());
                3
            }
            // `pub(in super::super)` imports nothing.
            [TokenTree::Ident(word), TokenTree::Group(_), ..] if word == "pub" => {
                let rest = self.piece(&tail[2..], scope, true);
                2 + rest
            }
            [TokenTree::Ident(word), ..] if word == "use" => {
                let end = tail.iter().position(|token| token.to_string() == ";");
                let end = end.unwrap_or(tail.len());
                let tree = &tail[1..end];
                let line = word.span().start().line;
                expand(tree, &Vec::new(), &mut |path, name| {
                    let Some(path) = scope.resolve(path) else { return };
                    match name.filter(|_| is_public) {
                        Some(name) => drop(self.passed_on.insert(name.to_owned(), (line, path))),
                        None => self.paths.push((line, path)),
                    }
                });
                end
            }
            [TokenTree::Ident(word), ..] => {
                let (path, length) = path(tail);
                self.words.extend(path.first().cloned());
                if path.len() > 1
                    && let Some(path) = scope.resolve(&path)
                {
                    self.paths.push((word.span().start().line, path));
                }
                length
            }
            [TokenTree::Group(group), ..] => {
                self.read(group.stream(), scope.module, scope.children);
                1
            }
            _ => 1,
        }
    }

    fn leave_out(&mut self, first: &TokenTree, item: &[TokenTree], scope: &Scope<'_>) {
        let end = item.last().unwrap_or(first).span().end().line;
        self.test_lines += end - first.span().start().line + 1;
        let name = item.iter().skip_while(|token| !is_word(token, "mod")).nth(1);
        self.test_modules
            .extend(name.map(|name| [scope.module.clone(), vec![text(name)]].concat()));
    }
}

/// Where a path stands.
struct Scope<'a> {
    module: &'a Path,
    children: &'a BTreeSet<String>,
}

impl Scope<'_> {
    /// The path as seen from the root; none if it leads into another crate.
    fn resolve(&self, path: &[String]) -> Option<Path> {
        let (first, mut rest) = path.split_first()?;
        let mut base = match first.as_str() {
            "crate" => Path::new(),
            "self" | "super" => self.module.clone(),
            child if self.children.contains(child) => {
                return Some([self.module.clone(), path.to_vec()].concat());
            }
            _ => return None,
        };
        if first == "super" {
            base.pop();
            while let Some(above) = rest.strip_prefix(&["super".to_owned()]) {
                base.pop();
                rest = above;
            }
        }
        Some([base, rest.to_vec()].concat())
    }
}

/// Walks the tree of a `use`, as in `a::{b, c::D as E}`: each path in it, and the name it brings.
fn expand(tree: &[TokenTree], base: &Path, found: &mut impl FnMut(&[String], Option<&str>)) {
    match tree {
        [TokenTree::Punct(one), TokenTree::Punct(_), rest @ ..] if one.as_char() == ':' => {
            expand(rest, base, found);
        }
        [group @ TokenTree::Group(_), ..] => {
            let inside = in_brackets(group, Delimiter::Brace).unwrap_or_default();
            let inside: Vec<TokenTree> = inside.into_iter().collect();
            for part in inside.split(|token| token.to_string() == ",") {
                expand(part, base, found);
            }
        }
        [TokenTree::Ident(last)] if last == "self" => {
            found(base, base.last().map(String::as_str));
        }
        [TokenTree::Ident(word), rest @ ..] => {
            let path = [base.clone(), vec![text(word)]].concat();
            match rest {
                [] => found(&path, Some(&word.to_string())),
                [_as, TokenTree::Ident(alias)] => found(&path, Some(&alias.to_string())),
                rest => expand(rest, &path, found),
            }
        }
        [] => {}
        _ => found(base, None), // a glob
    }
}

/// The path that begins here, and how many tokens it has.
fn path(tail: &[TokenTree]) -> (Path, usize) {
    let (mut path, mut at) = (Path::new(), 0);
    while let Some(TokenTree::Ident(word)) = tail.get(at) {
        path.push(text(word));
        at += 1;
        match &tail[at..] {
            [one, other, TokenTree::Ident(_), ..] if is_joint(one) && is_colon(other) => at += 2,
            _ => break,
        }
    }
    (path, at)
}

/// A word as files are named by it: `where` for `r#where`.
fn text(word: &impl ToString) -> String {
    let word = word.to_string();
    word.strip_prefix("r#").unwrap_or(&word).to_owned()
}

fn is_test_attribute(hash: &TokenTree, body: &TokenTree) -> bool {
    let body = in_brackets(body, Delimiter::Bracket).map(|body| body.to_string());
    hash.to_string() == "#" && body.is_some_and(|body| body.replace(' ', "") == "cfg(test)")
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':')
}

fn is_joint(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':'
        && punct.spacing() == Spacing::Joint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(text: &str, module: &str) -> Imports {
        Imports::of(text, &module.split("::").map(str::to_owned).collect()).unwrap()
    }

    fn paths(text: &str, module: &str) -> Vec<(usize, String)> {
        let paths = imports(text, module).paths;
        paths.into_iter().map(|(line, path)| (line, path.join("::"))).collect()
    }

    #[track_caller]
    fn assert_paths(text: &str, expected: &[(usize, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(line, path)| (*line, (*path).to_owned())).collect();
        assert_eq!(paths(text, "a::b"), expected, "{text}");
    }

    #[test]
    fn every_tree_of_a_use_is_walked_and_other_crates_are_left_out() {
        let text = "use crate::{c::D, e::{self, F as G}, h::*};\nuse super::i::J;\nuse std::fmt;\n\
                    use super::super::k;\nuse ::serde::L;";
        let expected = [(1, "c::D"), (1, "e"), (1, "e::F"), (1, "h"), (2, "a::i::J"), (4, "k")];
        assert_paths(text, &expected);
    }

    #[test]
    fn paths_in_expressions_types_and_macro_calls_are_imports_and_comments_are_none() {
        let text = "// crate::no::No\nfn f(x: crate::c::D) -> super::E {\n\
                    select! { () = crate::g::h() => \"crate::no\" }\n}\npub(in crate::a) fn f() {}";
        assert_paths(text, &[(2, "c::D"), (2, "a::E"), (3, "g::h")]);
    }

    #[test]
    fn a_module_in_the_file_may_be_named_without_self_and_others_have_self_before_them() {
        let text = "mod c;\nuse self::c::D;\nfn f() { c::e(); Vec::<d::F>::c::g() }\n\
                    mod i { use super::J; }\nmod r#where;\nfn g() { r#where::h() }";
        let expected =
            [(2, "a::b::c::D"), (3, "a::b::c::e"), (4, "a::b::J"), (6, "a::b::where::h")];
        assert_paths(text, &expected);
    }

    #[test]
    fn what_is_compiled_for_tests_only_is_left_out_and_counted() {
        let text = "use crate::c;\n#[cfg(test)]\nmod tests {\n  use crate::no;\n}\n\
                    #[cfg(test)]\npub(crate) mod testing;\nuse crate::d;";
        assert_paths(text, &[(1, "c"), (8, "d")]);
        let imports = imports(text, "a");
        assert_eq!(imports.test_lines, 6);
        assert_eq!(imports.test_modules, [["a", "tests"], ["a", "testing"]]);
    }

    #[test]
    fn what_is_only_passed_on_is_no_import_and_what_is_also_used_is_one() {
        let text = "mod c;\npub use self::c::{D, E as F};\nfn f() -> F {}";
        assert_paths(text, &[(2, "a::b::c::E")]);
        let passed_on = imports(text, "a").passed_on;
        assert_eq!(passed_on["D"], (2, vec!["a".to_owned(), "c".to_owned(), "D".to_owned()]));
        assert_eq!(passed_on.len(), 2);
    }
}
