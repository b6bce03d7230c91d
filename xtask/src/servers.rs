//! `cargo xtask servers`: newer servers than the machine's own, for the tests that want them.
//!
//! They are packages of other suites of the machine's own package source, unpacked together with
//! the libraries they were built with, and started through the loader of their own libc. Nothing
//! is installed: everything lies below `target/servers`, where the tests find it.

use std::fs;
use std::io::Error;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::apt::Suites;
use crate::command::Run;
use crate::outcome::Outcome;

/// Below the root of the workspace; the testkit looks there.
const DIRECTORY: &str = "target/servers";

/// What every server needs, under the same name in every suite.
const LIBRARIES: [&str; 10] = [
    "libatomic1",
    "libc6",
    "libcap2",
    "libgcc-s1",
    "libjemalloc2",
    "liblzf1",
    "libstdc++6",
    "libsystemd0",
    "libzstd1",
    "zlib1g",
];

/// A server of the matrix that is tested, and where it comes from.
struct Server {
    /// Its directory: the program and the version that is promised.
    name: &'static str,
    /// How it is started.
    program: &'static str,
    /// The suites of its packages; what is in several comes from the first.
    suites: &'static [&'static str],
    /// What it needs beside [`LIBRARIES`].
    packages: &'static [&'static str],
}

/// What Debian has of the versions that engines.md promises, as of 2026.
const SERVERS: [Server; 3] = [
    Server {
        name: "redis-8.0",
        program: "redis-server",
        suites: &["trixie"],
        packages: &["redis-server", "redis-tools", "libssl3t64"],
    },
    Server {
        name: "valkey-8.0",
        program: "valkey-server",
        suites: &["bookworm", "bookworm-backports"],
        packages: &[
            "valkey-server",
            "valkey-tools",
            "libgcrypt20",
            "libgpg-error0",
            "liblz4-1",
            "liblzma5",
            "libssl3",
        ],
    },
    Server {
        name: "valkey-9.1",
        program: "valkey-server",
        suites: &["sid"],
        packages: &["valkey-server", "valkey-tools", "libssl3t64"],
    },
];

/// Fetches every server that is not there yet.
pub(crate) fn run(root: &Path) -> Outcome {
    let mut failures = Vec::new();
    for server in &SERVERS {
        match fetch(root, server) {
            Ok(version) => println!("{}: {version}", server.name),
            Err(why) => failures.push(format!("{}: {why}", server.name)),
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("servers: {}", failures.join("; "))) }
}

/// The programs of the servers that are there, in the order of the table.
pub(crate) fn fetched(root: &Path) -> Vec<PathBuf> {
    let programs = SERVERS.iter().map(|server| launcher(&home(root, server), server));
    programs.filter(|program| program.is_file()).collect()
}

/// Fetches a server if need be; returns the line in which it says its version.
fn fetch(root: &Path, server: &Server) -> Outcome<String> {
    let home = home(root, server);
    if let Ok(version) = version(&launcher(&home, server)) {
        return Ok(version);
    }
    // Built under another name: what has its own name is whole.
    let draft = root.join(DIRECTORY).join(format!(".{}", server.name));
    for old in [&home, &draft] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|error| failed(old, error))?;
        }
    }
    let built = build(&draft, server)
        .and_then(|()| version(&launcher(&draft, server)))
        .and_then(|version| as_promised(server, version));
    if built.is_ok() {
        fs::rename(&draft, &home).map_err(|error| failed(&home, error))?;
    } else {
        fs::remove_dir_all(&draft).map_err(|error| failed(&draft, error))?;
    }
    built
}

/// Makes the directory of a server.
fn build(draft: &Path, server: &Server) -> Outcome {
    unpack(draft, server)?;
    write_launcher(draft, server)
}

/// Suites move on, and a directory must not lie about what is in it.
fn as_promised(server: &Server, version: String) -> Outcome<String> {
    let promised = server.name.rsplit('-').next().unwrap_or_default();
    if version.contains(&format!("v={promised}.")) {
        return Ok(version);
    }
    let suites = server.suites.join(", ");
    Err(format!("{suites} has another version by now: {version}; change the table"))
}

/// Fetches the packages and puts all their files below `draft/files`.
fn unpack(draft: &Path, server: &Server) -> Outcome {
    let packages = draft.join("packages");
    fs::create_dir_all(&packages).map_err(|error| failed(&packages, error))?;
    let names = [server.packages, &LIBRARIES].concat();
    Suites::open(&packages, server.suites)?.download(&names)?;
    for file in entries(&packages)?.iter().filter(|file| is_package(file)) {
        let into = draft.join("files");
        let words = ["--extract", &file.to_string_lossy(), &into.to_string_lossy()];
        Run::program("dpkg", &words).read()?;
    }
    fs::remove_dir_all(&packages).map_err(|error| failed(&packages, error))
}

/// Writes the script that starts the server: its loader, its libraries, its name. It finds them
/// beside itself, so that the directory can be moved.
fn write_launcher(home: &Path, server: &Server) -> Outcome {
    let (mut libraries, mut loader) = (Vec::new(), None);
    for folder in ["files/lib", "files/usr/lib"] {
        for machine in entries(&home.join(folder)).unwrap_or_default() {
            let files = entries(&machine).unwrap_or_default();
            let is_loader = |file: &&PathBuf| {
                file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
            };
            loader = loader.or(files.iter().find(is_loader).cloned());
            if files.iter().any(|file| file.to_string_lossy().contains(".so")) {
                libraries.push(below(home, &machine));
            }
        }
    }
    let loader = loader.ok_or("no loader in libc6: this kind of machine is not known")?;
    let (loader, program) = (below(home, &loader), server.program);
    let libraries = libraries.join(":");
    let script = format!(
        "#!/bin/sh\nhome=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd)\n\
         exec {loader} --argv0 {program} --library-path {libraries} \\\n    \
         \"$home/files/usr/bin/{program}\" \"$@\"\n"
    );
    let path = launcher(home, server);
    let written = fs::write(&path, script)
        .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(0o755)));
    written.map_err(|error| failed(&path, error))
}

/// A path as the launcher writes it.
fn below(home: &Path, path: &Path) -> String {
    format!("\"$home/{}\"", path.strip_prefix(home).unwrap_or(path).display())
}

fn version(program: &Path) -> Outcome<String> {
    let said = Run::program(&program.to_string_lossy(), &["--version"]).read()?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

fn home(root: &Path, server: &Server) -> PathBuf {
    root.join(DIRECTORY).join(server.name)
}

fn launcher(home: &Path, server: &Server) -> PathBuf {
    home.join(server.program)
}

fn is_package(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "deb")
}

fn entries(directory: &Path) -> Outcome<Vec<PathBuf>> {
    let entries = fs::read_dir(directory).map_err(|error| failed(directory, error))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

fn failed(path: &Path, error: Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_another_version_than_its_name_says_is_refused() {
        let [redis, ..] = &SERVERS;
        let said = |version: &str| as_promised(redis, format!("Redis server v={version} sha=0"));
        assert!(said("8.0.2").is_ok());
        assert!(said("8.2.0").is_err_and(|why| why.contains("trixie has another version")));
    }
}
