//! Every block of shell in the README and in some pages of `docs`, exactly as it is there.
//!
//! The info string after `sh` says how a block is tested. `by-hand`: it changes the machine or
//! builds the project. `alone`: it has a separate test in `recipes.rs`. `synopsis`: it has NAMEs
//! instead of names.

use std::collections::BTreeMap;

use crate::harness::{Background, Place, ended};

const README: &str = include_str!("../../../../README.md");
const COMMAND: &str = include_str!("../../../../docs/command.md");
const INSTALL: &str = include_str!("../../../../docs/install.md");
const RECIPES: &str = include_str!("../../../../docs/recipes.md");

/// How many blocks are not run: adding the library, work in a checkout, two ways to install the
/// command, one to remove everything.
const BY_HAND: usize = 5;

/// Programs that examples call, each of which notes how it was called.
const PROGRAMS: [&str; 7] =
    ["charge.sh", "convert.sh", "deploy.sh", "fetch.sh", "migrate.sh", "report.sh", "serve.sh"];

/// What each block that is run has called last, by its first line that is no comment.
const CALLED: [(&str, &[&str]); 9] = [
    ("leasehold run nightly-report -- ./report.sh", &["report.sh"]),
    ("name=", &["fetch.sh"]),
    ("set -e", &["migrate.sh", "serve.sh"]),
    ("exec leasehold run nightly-report", &["report.sh"]),
    ("for file in", &["convert.sh one", "convert.sh two"]),
    ("charged=", &["psql"]),
    ("handle=", &["deploy.sh"]),
    // Nobody deploys while the lease is held.
    ("leasehold take deploy", &[]),
    ("leasehold elect scheduler", &["scheduler"]),
];

#[derive(Clone, Debug)]
struct Block {
    /// The page and line of the block.
    place: String,
    /// The info string after `sh`.
    kind: String,
    text: String,
}

impl Block {
    /// The blocks of one page.
    fn of(name: &str, page: &str) -> Vec<Self> {
        let mut blocks: Vec<Self> = Vec::new();
        let mut is_open = false;
        for (number, line) in page.lines().enumerate() {
            match line.strip_prefix("```") {
                Some(info) if !is_open => {
                    is_open = true;
                    let (language, kind) = info.split_once(' ').unwrap_or((info, ""));
                    let place = format!("{name}:{}", number + 1);
                    // A block of another language is skipped.
                    let kind = if language == "sh" { kind } else { "other" }.to_owned();
                    blocks.push(Self { place, kind, text: String::new() });
                }
                Some(_) => is_open = false,
                None if is_open => {
                    let block = blocks.last_mut().unwrap();
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                None => {}
            }
        }
        blocks.retain(|block| block.kind != "other");
        blocks
    }

    fn all() -> Vec<Self> {
        let pages = [
            ("README.md", README),
            ("docs/command.md", COMMAND),
            ("docs/install.md", INSTALL),
            ("docs/recipes.md", RECIPES),
        ];
        pages.into_iter().flat_map(|(name, page)| Self::of(name, page)).collect()
    }

    /// The lines of the block that are no comments.
    fn commands(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// What the block has called last.
    fn called(&self) -> &'static [&'static str] {
        let first = self.commands().next().unwrap();
        let found = CALLED.iter().find(|(begin, _)| first.starts_with(begin));
        found.unwrap_or_else(|| panic!("{}: say in CALLED what it calls", self.place)).1
    }
}

/// A directory with the programs that examples call.
fn place() -> Place {
    let place = Place::on_file();
    for name in PROGRAMS {
        let note = format!("#!/bin/sh\necho \"{name}${{1:+ $1}}\" >>log\n");
        place.write_script(name, &note);
    }
    // It answers as if the row had been updated.
    place.write_script("psql", "#!/bin/sh\ncat >/dev/null\necho psql >>log\necho 42\n");
    place.write_script("scheduler", "#!/bin/sh\necho scheduler >>log\nexec sleep 600\n");
    place
}

fn run(block: &Block) {
    let place = place();
    let script = place.write_script("example", &block.text);
    let mut command = match block.text.starts_with("#!") {
        true => place.script(&script, &["one", "two"]),
        false => {
            let mut bash = place.script("bash".as_ref(), &[]);
            bash.arg(&script);
            bash
        }
    };
    let path = command.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?));
    let path = format!("{}:{}", place.directory.path().display(), path.unwrap().display());
    command.env("PATH", path).env("url", "https://example.org/a?b").env("LEASEHOLD_TOKEN", "17");
    let outcome = ended(command);
    assert_eq!(outcome.code, Some(0), "{}: {outcome:?}", block.place);
    let log = place.read("log");
    let called: Vec<&str> = log.lines().collect();
    assert_eq!(called, block.called(), "{}: {outcome:?}", block.place);
}

/// A leader, and two observers of it: they run at the same time.
fn run_together(block: &Block) {
    let place = place();
    let start = |command: &str| {
        let mut bash = place.script("bash".as_ref(), &["-c"]);
        bash.arg(format!("exec {command}"));
        Background::start(bash)
    };
    let commands: Vec<&str> = block.commands().collect();
    let [lead, show, listen] = commands[..] else { panic!("{}: {commands:?}", block.place) };
    let leader = start(lead);
    crate::harness::until("it leads", || place.read("log") == "scheduler\n");
    let shown = start(show).end();
    assert!(shown.code == Some(0) && shown.stdout.ends_with(":8080\n"), "{shown:?}");
    assert!(start(listen).line().contains(":8080"));
    drop(leader);
}

#[test]
fn every_block_of_shell_runs_as_it_stands_or_says_why_not() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for block in Block::all() {
        match block.kind.as_str() {
            "" if block.text.contains("--listen") => run_together(&block),
            "" => run(&block),
            "by-hand" | "alone" | "synopsis" => {}
            other => panic!("{}: what is {other:?}?", block.place),
        }
        *kinds.entry(block.kind).or_default() += 1;
    }
    let of = |kind: &str| kinds.get(kind).copied().unwrap_or_default();
    assert_eq!((of(""), of("by-hand"), of("synopsis")), (CALLED.len(), BY_HAND, 1), "{kinds:?}");
}

#[test]
fn the_synopsis_names_commands_and_options_that_there_are() {
    let place = Place::on_file();
    let blocks = Block::all();
    let synopsis = blocks.iter().filter(|block| block.kind == "synopsis");
    let lines: Vec<&str> = synopsis.flat_map(Block::commands).collect();
    assert!(lines.len() > 10, "{lines:?}");
    for line in lines {
        let line = line.split(" # ").next().unwrap_or_default();
        let own = line.split(" -- ").next().unwrap_or_default();
        let mut words = own.split_whitespace();
        assert_eq!(words.next(), Some("leasehold"), "{line}");
        let help = place.end(&[words.next().unwrap(), "--help"]);
        assert_eq!(help.code, Some(0), "{line}: {help:?}");
        for option in words.filter(|word| word.starts_with("--")) {
            let is_there = help.stdout.split([' ', ',', '\n']).any(|word| word == option);
            assert!(is_there, "{line}: no {option} in {}", help.stdout);
        }
    }
}
