//! The trial of mutations: which of them compile, and which of those the unit tests notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;
use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel};

use super::programs::KEEP_NOTHING;
use super::switched::{self, Mutation, SWITCH};
use crate::outcome::Outcome;
use crate::tree;

/// Where the copy of the repository is that has all mutations.
const COPY: &str = "target/mutants/copy";

const PACKAGE: &str = "crates/leasehold-core";

/// How long the tests may take with a mutation, as `timeout` takes it: they take a second without
/// one, and one may let them hang.
const LIMIT: &str = "30s";

/// Random tests draw the same each time, so that nothing survives by chance, and make nothing that
/// they find small.
const DRAWN: [(&str, &str); 2] = [("PROPTEST_RNG_SEED", "1"), ("PROPTEST_MAX_SHRINK_ITERS", "0")];

/// What came of mutations, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Tried {
    pub(super) uncompiled: BTreeSet<usize>,
    pub(super) missed: BTreeSet<usize>,
}

/// The copy with all mutations.
struct Switched<'a> {
    root: PathBuf,
    built: &'a Path,
    /// The mutations of each file, by their numbers, which begin at 1.
    mutations: BTreeMap<&'a str, Vec<(usize, &'a Mutation)>>,
}

/// Tries mutations that can be switched.
pub(super) fn run(root: &Path, built: &Path, mutations: &[Mutation]) -> Outcome<Tried> {
    let mut files = BTreeMap::<_, Vec<_>>::new();
    for (number, mutation) in (1..).zip(mutations) {
        files.entry(mutation.file.as_str()).or_default().push((number, mutation));
    }
    let copy = Switched { root: root.join(COPY), built, mutations: files };
    for file in tree::files(root)? {
        write(&copy.root.join(&file.path), &file.text)?;
    }
    let [library, manifest] =
        ["src/lib.rs", "Cargo.toml"].map(|file| copy.root.join(PACKAGE).join(file));
    write(&library, &(read(&library)? + SWITCH))?;
    // A mutation is no good style.
    write(&manifest, &read(&manifest)?.replace("[lints]\nworkspace = true\n", ""))?;
    let mut tried = Tried::default();
    let tests = loop {
        copy.write(root, &tried.uncompiled)?;
        match copy.build()? {
            Ok(tests) => break tests,
            Err(errors) => tried.uncompiled.extend(copy.blame(&errors, &tried.uncompiled)?),
        }
    };
    if !copy.passes(&tests, 0)? {
        return Err(format!("the tests of {PACKAGE} fail without any mutation"));
    }
    let compiled = mutations.len() - tried.uncompiled.len();
    eprintln!("$ {}, with {compiled} mutations in turn", tests.display());
    for number in (1..=mutations.len()).filter(|number| !tried.uncompiled.contains(number)) {
        if copy.passes(&tests, number)? {
            tried.missed.insert(number);
        }
    }
    Ok(tried)
}

impl Switched<'_> {
    /// Writes the files that have mutations, with all but some of these.
    fn write(&self, from: &Path, but: &BTreeSet<usize>) -> Outcome {
        for (file, mutations) in &self.mutations {
            let mut mutations = mutations.clone();
            mutations.retain(|(number, _)| !but.contains(number));
            let text = switched::source(&read(&from.join(file))?, &mutations)?;
            write(&self.root.join(file), &text)?;
        }
        Ok(())
    }

    /// The program with the unit tests, or why there is none.
    fn build(&self) -> Outcome<Result<PathBuf, Vec<Diagnostic>>> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["test", "--no-run", "--lib", "--package", "leasehold-core"]);
        command.args(["--features", "serde", "--profile", "mutants", "--message-format=json"]);
        command.env("CARGO_TARGET_DIR", self.built);
        let output = command.current_dir(&self.root).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("cargo test: {error}"))?;
        let (mut program, mut errors) = (None, Vec::new());
        for message in Message::parse_stream(&output.stdout[..]) {
            match message.map_err(|error| format!("cargo test: {error}"))? {
                Message::CompilerArtifact(artifact) => program = artifact.executable.or(program),
                Message::CompilerMessage(said) if said.message.level == DiagnosticLevel::Error => {
                    errors.push(said.message);
                }
                _ => {}
            }
        }
        match program {
            Some(program) if output.status.success() => Ok(Ok(program.into())),
            Some(_) | None => Ok(Err(errors)),
        }
    }

    /// The mutations that do not compile.
    fn blame(&self, errors: &[Diagnostic], known: &BTreeSet<usize>) -> Outcome<BTreeSet<usize>> {
        let mut blamed = BTreeSet::new();
        for span in errors.iter().flat_map(|error| &error.spans).filter(|span| span.is_primary) {
            if self.mutations.contains_key(span.file_name.as_str()) {
                let source = read(&self.root.join(&span.file_name))?;
                blamed.extend(switched::mutation_at(&source, span.line_start));
            }
        }
        if blamed.is_subset(known) {
            let why = errors.iter().find_map(|error| error.rendered.clone());
            return Err(why.unwrap_or_else(|| format!("{COPY} does not compile")));
        }
        Ok(blamed)
    }

    /// Whether the tests pass with the mutation of this number, or with none.
    fn passes(&self, tests: &Path, number: usize) -> Outcome<bool> {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5s", LIMIT]).arg(tests).arg("--quiet");
        command.env("MUTATION", number.to_string()).envs([KEEP_NOTHING]).envs(DRAWN);
        command.current_dir(self.root.join(PACKAGE));
        let [out, err] = [Stdio::null(), Stdio::null()];
        let end = command.stdin(Stdio::null()).stdout(out).stderr(err).status();
        Ok(end.map_err(|error| format!("{}: {error}", tests.display()))?.success())
    }
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    let directory = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = directory.and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}
