//! `docs/sizing.md` adds up, and its figures are those of the simulated fleet.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::model::{DEFAULT_RETENTION, POLL_INTERVAL};
use leasehold_testkit::fleet::{BUS_MESSAGE, RENEWED_LEASE, SCRIPT};

const PAGE: &str = include_str!("../../docs/sizing.md");

/// What the page may round off: one in a hundred.
const ROUNDED: f64 = 0.01;

type Figures = BTreeMap<String, f64>;

/// The lines with an `=` of its blocks, without the remarks behind them.
fn lines() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter(|line| line.contains(" = "));
    lines.map(|line| line.split_once('#').map_or(line, |(line, _)| line))
}

/// The value of an expression of numbers, names, `+ - * /` and parentheses, with blanks between.
struct Reader<'a> {
    words: std::iter::Peekable<std::str::SplitWhitespace<'a>>,
    figures: &'a Figures,
}

impl Reader<'_> {
    fn sum(&mut self) -> f64 {
        let mut sum = self.product();
        while let Some(sign) = self.words.next_if(|word| matches!(*word, "+" | "-")) {
            let next = self.product();
            sum += if sign == "+" { next } else { -next };
        }
        sum
    }

    fn product(&mut self) -> f64 {
        let mut product = self.single();
        while let Some(sign) = self.words.next_if(|word| matches!(*word, "*" | "/")) {
            let next = self.single();
            product *= if sign == "*" { next } else { 1.0 / next };
        }
        product
    }

    fn single(&mut self) -> f64 {
        match self.words.next() {
            Some("(") => {
                let sum = self.sum();
                assert_eq!(self.words.next(), Some(")"));
                sum
            }
            Some(word) => word.parse().unwrap_or_else(|_| self.figures[word]),
            None => panic!("the expression ends too early"),
        }
    }
}

fn value(text: &str, figures: &Figures) -> f64 {
    let mut reader = Reader { words: text.split_whitespace().peekable(), figures };
    let value = reader.sum();
    assert_eq!(reader.words.next(), None, "{text}");
    value
}

/// All figures that the page names. Each computed result is compared with the stated one.
fn figures() -> Figures {
    let mut figures = Figures::new();
    for line in lines() {
        let mut sides = line.split(" = ").map(str::trim);
        let (name, expression) =
            (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        let found = value(expression, &figures);
        let said = sides.next().map_or(found, |said| value(said, &figures));
        assert!((found - said).abs() <= said * ROUNDED, "{line}: it is {found}");
        assert_eq!(figures.insert(name.to_owned(), found), None, "{name} is there twice");
    }
    figures
}

#[test]
fn the_page_on_sizing_adds_up() {
    assert!(figures().len() > 30, "{:?}", figures());
}

#[test]
fn the_page_on_sizing_has_the_figures_that_are_simulated() {
    let figures = figures();
    let micros = |span: Duration| span.as_nanos() as f64 / 1e3;
    for (name, figure) in [
        ("script", micros(SCRIPT)),
        ("renewed_lease", micros(RENEWED_LEASE)),
        ("bus_message", micros(BUS_MESSAGE)),
        ("poll", POLL_INTERVAL.as_secs_f64()),
        ("retention", DEFAULT_RETENTION.as_secs_f64()),
    ] {
        assert!((figures[name] - figure).abs() < 1e-9, "{name}: {figure}");
    }
}
