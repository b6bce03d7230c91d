//! `cargo xtask python`: the Python package as its users have it. Builds the wheel, installs it
//! into an environment, and runs what tests it there.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, Run, root};

/// The package, and what its tests need at which version.
const PACKAGE: &str = "python";
const REQUIREMENTS: &str = "python/requirements-test.txt";

/// Where environments and wheels are.
const PLACE: &str = "target/python";

/// The interpreters that the package is for, the first of which is that of the machine.
const INTERPRETERS: [&str; 6] =
    ["python3", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

/// The type checker that is no package of Python, as npm names it.
const PYRIGHT: &str = "pyright@1.1.414";

/// How often the tests for leaks acquire and release in each way, and how often with `--long`.
const PAIRS: &str = "10000";
const LONG_PAIRS: &str = "100000";

/// Says an interpreter's version, and fails for one that the package is not for.
const VERSION: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3]); \
                       sys.exit(sys.version_info < (3, 10))";

/// Tests with the interpreter of the machine, or with each that there is.
pub(crate) fn run(is_long: bool) -> Outcome {
    let mut tested: Vec<String> = Vec::new();
    let interpreters = if is_long { &INTERPRETERS[..] } else { &INTERPRETERS[..1] };
    let mut wheel = None;
    for interpreter in interpreters {
        let version = Run::program(interpreter, &["-c", VERSION]).record();
        let version = version.ok().filter(|(_, succeeded)| *succeeded);
        let Some((version, _)) = version else {
            println!("left out: Python tests with {interpreter}: it is not there");
            continue;
        };
        let version = version.trim().to_owned();
        if tested.contains(&version) {
            continue;
        }
        let environment = environment(interpreter, &version)?;
        let wheel = match &wheel {
            Some(wheel) => wheel,
            None => {
                check_style(&environment)?;
                wheel.insert(build(&environment, "dev")?)
            }
        };
        test(&environment, wheel, is_long)?;
        tested.push(version);
    }
    match tested.is_empty() {
        true => Err("no Python from 3.10 on is there: install python3".to_owned()),
        false => Ok(()),
    }
}

/// The programs of an environment.
struct Environment(PathBuf);

impl Environment {
    fn program(&self, name: &str) -> String {
        self.0.join("bin").join(name).to_string_lossy().into_owned()
    }

    fn run(&self, name: &str, words: &[&str]) -> Run {
        Run::program(&self.program(name), words)
    }
}

/// An environment with what the tests need, made anew when that has changed.
fn environment(interpreter: &str, version: &str) -> Outcome<Environment> {
    let failed = |error: std::io::Error| format!("{REQUIREMENTS}: {error}");
    let place = root().join(PLACE).join(version);
    let (wanted, noted) =
        (fs::read_to_string(root().join(REQUIREMENTS)).map_err(failed)?, place.join("installed"));
    let environment = Environment(place);
    if fs::read_to_string(&noted).is_ok_and(|found| found == wanted) {
        return Ok(environment);
    }
    let place = environment.0.to_string_lossy();
    Run::program(interpreter, &["-m", "venv", "--clear", &place]).show()?;
    let words = ["-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS];
    environment.run("python", &words).show()?;
    // Written last, so that what was broken off half-way is begun anew.
    fs::write(noted, wanted).map_err(failed)?;
    Ok(environment)
}

fn check_style(environment: &Environment) -> Outcome {
    environment.run("ruff", &["check", "--quiet", PACKAGE]).show()?;
    environment.run("ruff", &["format", "--quiet", "--check", PACKAGE]).show()
}

/// Compares with redis-py, in release mode.
pub(crate) fn bench() -> Outcome {
    let (version, _) = Run::program(INTERPRETERS[0], &["-c", VERSION]).record()?;
    let environment = environment(INTERPRETERS[0], version.trim())?;
    install(&environment, &build(&environment, "release")?)?;
    environment.run("python", &["evidence/benches/python/compare.py"]).show()
}

/// The wheel, in a profile of cargo: for tests that in which all tests are built.
fn build(environment: &Environment, profile: &str) -> Outcome<String> {
    let wheels = root().join(PLACE).join("wheels");
    if wheels.exists() {
        fs::remove_dir_all(&wheels).map_err(|error| format!("{}: {error}", wheels.display()))?;
    }
    let out = wheels.to_string_lossy();
    let manifest = format!("{PACKAGE}/Cargo.toml");
    let words = ["build", "--profile", profile, "--locked", "--quiet", "--out", &out];
    environment.run("maturin", &[&words[..], &["--manifest-path", &manifest]].concat()).show()?;
    let built = fs::read_dir(&wheels).map_err(|error| format!("{out}: {error}"))?;
    let mut built = built.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = built.find(|path| path.extension().is_some_and(|end| end == "whl"));
    wheel.map(|path| path.to_string_lossy().into_owned()).ok_or(format!("{out}: no wheel"))
}

/// Installs the wheel and nothing with it.
fn install(environment: &Environment, wheel: &str) -> Outcome {
    let words = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall"];
    environment.run("python", &[&words[..], &[wheel]].concat()).show()
}

/// Builds the command, which stands in queues with Python: as the suite does, so that it is built
/// once. It is beside this program, wherever Cargo builds.
fn command() -> Outcome<String> {
    let words = ["build", "--workspace", "--all-features", "--locked", "--bin", "leasehold"];
    Run::cargo(&words).for_tests().show()?;
    let this = env::current_exe().map_err(|why| format!("where is xtask? {why}"))?;
    Ok(this.with_file_name("leasehold").to_string_lossy().into_owned())
}

/// Installs the other type checker, where there is Node; the tests say that they leave it out else.
fn pyright() -> Outcome<Option<String>> {
    let place = root().join(PLACE).join(PYRIGHT);
    let program = place.join("node_modules/.bin/pyright").to_string_lossy().into_owned();
    if Run::program(&program, &["--version"]).works() {
        return Ok(Some(program));
    }
    if !Run::program("npm", &["--version"]).works() {
        return Ok(None);
    }
    let place = place.to_string_lossy();
    let words = ["install", "--prefix", &place, "--no-package-lock", "--ignore-scripts"];
    Run::program("npm", &[&words[..], &["--no-audit", "--no-fund", PYRIGHT]].concat()).show()?;
    Ok(Some(program))
}

/// Runs the tests of the installed wheel, from outside of the sources.
fn test(environment: &Environment, wheel: &str, is_long: bool) -> Outcome {
    install(environment, wheel)?;
    let tests = root().join(PACKAGE).join("tests");
    let configuration = root().join(PACKAGE).join("pyproject.toml");
    let (tests, configuration) = (tests.to_string_lossy(), configuration.to_string_lossy());
    let words = ["-m", "pytest", "--quiet", "-p", "no:cacheprovider", "-c", &configuration];
    let pairs = ["--pairs", if is_long { LONG_PAIRS } else { PAIRS }];
    let run = environment.run("python", &[&words[..], &pairs, &[&tests]].concat());
    let run = run.with("PYTHONDONTWRITEBYTECODE", "1").with("LEASEHOLD_COMMAND", &command()?);
    let run = match pyright()? {
        Some(program) => run.with("LEASEHOLD_PYRIGHT", &program),
        None => run,
    };
    run.within(Path::new(&environment.0)).show()
}
