//! `cargo xtask python`: the Python package as its users have it. Builds the wheel, installs it
//! into an environment, and runs its tests there.

use std::env;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::fs;
use std::path::{Path, PathBuf};

use crate::programs;
use crate::run::{Outcome, Run, root};

/// The directory of the package, and the file with the packages and versions that its tests need.
const PACKAGE: &str = "python";
const REQUIREMENTS: &str = "python/requirements-test.txt";

/// Where environments and wheels are.
const PLACE: &str = "target/python";

/// The interpreters that the package supports; the first is the interpreter of the machine.
const INTERPRETERS: [&str; 6] =
    ["python3", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"];

/// The type checker that is no package of Python, as npm names it.
const PYRIGHT: &str = "pyright@1.1.414";

/// How often the tests for leaks acquire and release in each way, and how often with `--long`.
const PAIRS: &str = "4000";
const LONG_PAIRS: &str = "100000";

/// Prints the version of its interpreter, and fails if the package does not support it.
const VERSION: &str = "import sys; print('%d.%d.%d' % sys.version_info[:3]); \
                       sys.exit(sys.version_info < (3, 10))";

const MISSING: &str = "no Python from 3.10 on is there: install python3";

/// Prints the directory of the packages of an environment.
const PLACE_OF_PACKAGES: &str = "import sysconfig; print(sysconfig.get_path('platlib'))";

/// Tests the wheel with the interpreter of the machine, or with each interpreter that is installed.
pub(crate) fn run(is_long: bool) -> Outcome {
    programs::build()?;
    let mut tested: Vec<String> = Vec::new();
    let interpreters = if is_long { &INTERPRETERS[..] } else { &INTERPRETERS[..1] };
    let mut wheel = None;
    for interpreter in interpreters {
        let Some(version) = version(interpreter) else {
            println!("left out: Python tests with {interpreter}: it is not there");
            continue;
        };
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
        install(&environment, wheel)?;
        let pairs = ["--pairs", if is_long { LONG_PAIRS } else { PAIRS }];
        environment.test(pyright()?.as_deref(), &pairs)?.show()?;
        tested.push(version);
    }
    match tested.is_empty() {
        true => Err(MISSING.to_owned()),
        false => Ok(()),
    }
}

/// What the suite tests the package with, for the interpreter of the machine.
#[derive(Debug)]
pub(crate) struct Tools {
    environment: Environment,
    pyright: Option<String>,
}

impl Tools {
    /// Installs them, and checks the style of the package.
    pub(crate) fn install() -> Outcome<Self> {
        let version = version(INTERPRETERS[0]).ok_or(MISSING)?;
        let environment = environment(INTERPRETERS[0], &version)?;
        check_style(&environment)?;
        Ok(Self { environment, pyright: pyright()? })
    }

    /// Tests the package with the library that the suite has already built, and shows the output. A
    /// wheel would compile all dependencies once more. Tests that fail while others run are tried
    /// once more.
    pub(crate) fn test_compiled(&self) -> Outcome {
        let Self { environment, pyright } = self;
        let (place, _) = environment.run("python", &["-c", PLACE_OF_PACKAGES]).record()?;
        let package = Path::new(place.trim()).join("leasehold");
        let native = package.join("_core.abi3.so");
        let package = package.to_string_lossy();
        Run::program("rm", &["-rf", &package]).show()?;
        Run::program("cp", &["-R", &format!("{PACKAGE}/leasehold"), &package]).show()?;
        let library = built(&format!("{DLL_PREFIX}_core{DLL_SUFFIX}"))?;
        Run::program("cp", &[&library, &native.to_string_lossy()]).show()?;
        let test = |words: &[&str]| {
            let words = [&["--pairs", PAIRS], words].concat();
            let (text, succeeded) = environment.test(pyright.as_deref(), &words)?.record()?;
            println!("{text}");
            Outcome::Ok(succeeded)
        };
        if test(&[])? {
            return Ok(());
        }
        if !test(&["--last-failed"])? {
            return Err("tests in Python failed".to_owned());
        }
        println!("unsteady: Python: some tests failed and passed when they were tried again");
        Ok(())
    }
}

/// The version of an interpreter, if it is installed and the package supports it.
fn version(interpreter: &str) -> Option<String> {
    let version = Run::program(interpreter, &["-c", VERSION]).record();
    let (version, _) = version.ok().filter(|(_, succeeded)| *succeeded)?;
    Some(version.trim().to_owned())
}

/// The programs of an environment.
#[derive(Debug)]
struct Environment(PathBuf);

impl Environment {
    fn program(&self, name: &str) -> String {
        self.0.join("bin").join(name).to_string_lossy().into_owned()
    }

    fn run(&self, name: &str, words: &[&str]) -> Run {
        Run::program(&self.program(name), words)
    }

    /// Runs the tests of the installed package, from outside of the sources.
    fn test(&self, pyright: Option<&str>, words: &[&str]) -> Outcome<Run> {
        let file = |name: &str| root().join(PACKAGE).join(name).to_string_lossy().into_owned();
        let (tests, configuration) = (file("tests"), file("pyproject.toml"));
        let cache = format!("cache_dir={}", self.0.join("cache").display());
        let options = ["-m", "pytest", "--quiet", "-o", &cache, "-c", &configuration];
        let run = self.run("python", &[&options[..], words, &[&tests]].concat());
        let run = run.with("PYTHONDONTWRITEBYTECODE", "1");
        let run = run.with("LEASEHOLD_COMMAND", &built("leasehold")?);
        let run = match pyright {
            Some(program) => run.with("LEASEHOLD_PYRIGHT", program),
            None => run,
        };
        Ok(run.within(&self.0))
    }
}

/// An environment with the packages that the tests need, made anew when the list has changed.
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
    // Written last, so that an environment that was left half-made is made anew.
    fs::write(noted, wanted).map_err(failed)?;
    Ok(environment)
}

fn check_style(environment: &Environment) -> Outcome {
    environment.run("ruff", &["check", "--quiet", PACKAGE]).show()?;
    environment.run("ruff", &["format", "--quiet", "--check", PACKAGE]).show()
}

/// Compares with redis-py, in release mode.
pub(crate) fn bench() -> Outcome {
    let environment = environment(INTERPRETERS[0], &version(INTERPRETERS[0]).ok_or(MISSING)?)?;
    install(&environment, &build(&environment, "release")?)?;
    environment.run("python", &["evidence/benches/python/compare.py"]).show()
}

/// The wheel, in a profile of cargo.
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

/// A file that the suite has built. It is beside this program, wherever Cargo builds.
fn built(name: &str) -> Outcome<String> {
    let this = env::current_exe().map_err(|why| format!("where is xtask? {why}"))?;
    Ok(this.with_file_name(name).to_string_lossy().into_owned())
}

/// If there is Node, installs the other type checker; otherwise the tests say that they skip it.
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
