//! `cargo xtask dist`: what is given to users, in `target/dist`.
//!
//! A static program, so that one build runs on every Linux of its kind of machine: `musl` instead
//! of the C library of whoever builds.

mod check;
mod files;
mod stage;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};

use self::files::{remove, write};
use crate::command::Run;
use crate::needs;
use crate::outcome::Outcome;
use crate::packages;

/// Where everything is put.
const DIRECTORY: &str = "target/dist";

/// The package of the command.
const PACKAGE: &str = "leasehold-cli";

/// What is built, and where.
#[derive(Debug)]
struct Dist<'a> {
    root: &'a Path,
    /// The kind of machine, as rustc calls it.
    target: String,
    version: String,
    /// The time of the last commit, in seconds: what is built of one commit has one time.
    time: String,
}

/// Builds, packs and tries out everything.
pub(crate) fn run(root: &Path) -> Outcome {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    needs::musl(&target)?;
    let tools = tools::install(root)?;
    let dist = Dist::new(root, target)?;
    let directory = dist.directory();
    remove(&directory)?;
    let program = dist.build()?;
    stage::stage(root, &program, &dist.stage())?;
    let archive = dist.pack_archive()?;
    let package = dist.pack_package(&tools)?;
    let bill = dist.write_bill(&tools)?;
    check::check(&package, &directory.join("installed"))?;
    remove(&dist.stage())?;
    remove(&directory.join("installed"))?;
    let files = [archive, package, bill];
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let sums = Run::program("sha256sum", &names.collect::<Vec<_>>()).within(&directory).read()?;
    write(&directory.join("SHA256SUMS"), &sums)?;
    println!("{sums}{DIRECTORY}: what is to be given to users");
    Ok(())
}

impl<'a> Dist<'a> {
    fn new(root: &'a Path, target: String) -> Outcome<Self> {
        let package = packages::all(root)?.into_iter().find(|package| package.name == PACKAGE);
        let version = package.ok_or_else(|| format!("no package {PACKAGE}"))?.version.to_string();
        let time = Run::program("git", &["log", "-1", "--format=%ct"]).within(root).read()?;
        Ok(Self { root, target, version, time: time.trim().to_owned() })
    }

    fn directory(&self) -> PathBuf {
        self.root.join(DIRECTORY)
    }

    /// The tree below `/usr`, before it is packed.
    fn stage(&self) -> PathBuf {
        self.directory().join("leasehold")
    }

    fn build(&self) -> Outcome<PathBuf> {
        let words = ["build", "--release", "--locked", "--package", PACKAGE, "--target"];
        Run::cargo(self.root, &[&words[..], &[&self.target]].concat()).show()?;
        let built = packages::target_directory(self.root)?.join(&self.target);
        Ok(built.join("release/leasehold"))
    }

    /// Everything below one directory, with no trace of who has packed it.
    fn pack_archive(&self) -> Outcome<PathBuf> {
        let name = format!("leasehold-{}-{}", self.version, self.target);
        let archive = self.directory().join(format!("{name}.tar.gz"));
        let (rename, time) = (format!("s,^leasehold,{name},"), format!("--mtime=@{}", self.time));
        let shown = archive.display().to_string();
        let words = ["--create", "--use-compress-program=gzip -9n", "--file", &shown];
        let same = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", &time];
        let what = ["--transform", &rename, "leasehold"];
        let words = [&words[..], &same, &what].concat();
        Run::program("tar", &words).within(&self.directory()).show()?;
        Ok(archive)
    }

    fn pack_package(&self, tools: &Path) -> Outcome<PathBuf> {
        let (program, directory) = (tools.join("cargo-deb"), self.directory());
        let (program, directory) = (program.display().to_string(), directory.display().to_string());
        let words = ["--no-build", "--no-strip", "--package", PACKAGE, "--target", &self.target];
        let words = [&words[..], &["--output", &directory, "--locked"]].concat();
        let run = Run::program(&program, &words).within(self.root);
        run.with("SOURCE_DATE_EPOCH", &self.time).show()?;
        let found = fs::read_dir(self.directory()).into_iter().flatten().flatten();
        let found = found.map(|entry| entry.path());
        let mut packages = found.filter(|path| path.extension().is_some_and(|it| it == "deb"));
        packages.next().ok_or_else(|| format!("cargo-deb has made no package in {DIRECTORY}"))
    }

    /// What it is built of, with versions and licences.
    fn write_bill(&self, tools: &Path) -> Outcome<PathBuf> {
        let program = tools.join("cargo-sbom").display().to_string();
        let words = ["sbom", "--cargo-package", PACKAGE, "--output-format", "cyclone_dx_json_1_6"];
        let bill = Run::program(&program, &words).within(self.root).read()?;
        let path = self.directory().join(format!("leasehold-{}.cdx.json", self.version));
        write(&path, &bill)?;
        Ok(path)
    }
}
