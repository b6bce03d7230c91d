//! What the programs in other languages need with which our tests share a lock, installed into
//! `target/mixed` from the registries of their languages, at the versions that `tests/mixed`,
//! `tests/peers` and `tests/controls` name.

use std::fs;
use std::path::Path;

use crate::command::Run;
use crate::outcome::Outcome;

/// Below the root of the workspace; the tests look there.
const DIRECTORY: &str = "target/mixed";

/// Where the versions are named.
const VERSIONS: &str = "tests/mixed";

/// A language, and the file that names what it needs.
struct Language {
    /// Its directory.
    name: &'static str,
    versions: &'static str,
    /// What is built from source.
    sources: &'static [&'static str],
    install: fn(&Path, &Path) -> Outcome,
}

const LANGUAGES: [Language; 6] = [
    Language { name: "node", versions: "package.json", sources: &[], install: node },
    Language { name: "python", versions: "requirements.txt", sources: &[], install: python },
    Language {
        name: "redisson",
        versions: "../peers/redisson/pom.xml",
        sources: &[
            "../peers/redisson/src/main/java/Peer.java",
            "../peers/redisson/src/main/java/Control.java",
        ],
        install: maven,
    },
    Language {
        name: "java",
        versions: "../peers/java/pom.xml",
        sources: &["../peers/java/src/main/java/Plain.java"],
        install: maven,
    },
    Language {
        name: "redsync",
        versions: "../peers/redsync/go.mod",
        sources: &["../peers/redsync/main.go"],
        install: go,
    },
    Language {
        name: "rueidislock",
        versions: "../controls/rueidislock/go.mod",
        sources: &["../controls/rueidislock/main.go"],
        install: go,
    },
];

/// Installs what is missing. Gives a line for each language that could not be had: its tests are
/// then left out, and the others run.
pub(crate) fn install(root: &Path) -> Outcome<Vec<String>> {
    let mut missing = Vec::new();
    for Language { name, versions, sources, install } in LANGUAGES {
        let place = root.join(DIRECTORY).join(name);
        let versions = root.join(VERSIONS).join(versions);
        let mut wanted = read(&versions)?;
        for source in sources {
            wanted += &read(&root.join(VERSIONS).join(source))?;
        }
        // Written last, so that what was broken off half-way is begun anew.
        let installed = place.join("installed");
        if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
            continue;
        }
        let begun = match place.exists() {
            true => fs::remove_dir_all(&place),
            false => Ok(()),
        };
        let made = begun.and_then(|()| fs::create_dir_all(&place));
        made.map_err(|error| format!("{}: {error}", place.display()))?;
        match install(&place, &versions) {
            Ok(()) => write(&installed, &wanted)?,
            Err(why) => missing.push(format!("the tests with programs in {name}: {why}")),
        }
    }
    Ok(missing)
}

fn node(place: &Path, versions: &Path) -> Outcome {
    write(&place.join("package.json"), &read(versions)?)?;
    let place = place.to_string_lossy();
    let arguments = ["install", "--prefix", &place, "--no-package-lock", "--ignore-scripts"];
    Run::program("npm", &[&arguments[..], &["--no-audit", "--no-fund"]].concat()).show()
}

fn python(place: &Path, versions: &Path) -> Outcome {
    Run::program("python3", &["-m", "venv", &place.to_string_lossy()]).show()?;
    let pip = place.join("bin/pip");
    let arguments = ["install", "--quiet", "--requirement", &versions.to_string_lossy()];
    Run::program(&pip.to_string_lossy(), &arguments).show()
}

fn maven(place: &Path, versions: &Path) -> Outcome {
    Run::program("java", &["-version"]).show()?;
    let place = std::path::absolute(place).map_err(|error| error.to_string())?;
    let (pom, place) = (versions.to_string_lossy(), format!("-Dplace={}", place.display()));
    let goals = ["compile", "dependency:copy-dependencies"];
    let arguments = [&["--quiet", "--batch-mode", "--file", &pom, &place][..], &goals].concat();
    Run::program("mvn", &arguments).show()
}

/// Built from a copy: the sums of what is downloaded are written beside it.
fn go(place: &Path, versions: &Path) -> Outcome {
    write(&place.join("go.mod"), &read(versions)?)?;
    write(&place.join("main.go"), &read(&versions.with_file_name("main.go"))?)?;
    let program = place.file_name().unwrap_or_default().to_string_lossy();
    let place = place.to_string_lossy();
    Run::program("go", &["build", "-C", &place, "-mod=mod", "-o", &program, "."]).show()
}

fn read(path: &Path) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_is_pinned_and_no_download_address_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(VERSIONS);
        for Language { versions, .. } in LANGUAGES {
            let text = read(&root.join(versions)).unwrap();
            assert!(!text.contains("://"), "{text}");
            let is_xml = versions.ends_with(".xml");
            let without_comments =
                |part: &str| part.rsplit("-->").next().unwrap_or(part).to_owned();
            let text: String = text.split("<!--").map(without_comments).collect();
            assert!(
                !text.contains(if is_xml { ['[', ',', '('] } else { ['^', '~', '*'] }),
                "{text}"
            );
            assert!(is_xml || !text.contains('>'), "{text}");
        }
        let is_file = |name: &str| root.join(name).exists();
        assert!(!is_file("package-lock.json") && !is_file("node_modules"));
    }
}
