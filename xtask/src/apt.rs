//! The machine's own package source, asked for other suites than the machine's.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Run;
use crate::outcome::Outcome;

/// Some suites of the machine's package source, with lists and a cache of their own: what the
/// machine has installed, and what it would install, is not touched. Needs no rights.
#[derive(Debug)]
pub(crate) struct Suites {
    directory: PathBuf,
    options: Vec<String>,
}

impl Suites {
    /// Reads the lists of the suites; lists and packages are kept in `directory`.
    pub(crate) fn open(directory: &Path, suites: &[&str]) -> Outcome<Self> {
        let source = source()?;
        let place = |name: &str| directory.join(name);
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = place(folder);
            let made = fs::create_dir_all(&folder);
            made.map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let lines = suites.iter().map(|suite| format!("deb {source} {suite} main\n"));
        let list = place("sources.list");
        let written = fs::write(&list, lines.collect::<String>());
        written.map_err(|error| format!("{}: {error}", list.display()))?;
        let option = |name: &str, value: &Path| format!("--option={name}={}", value.display());
        let options = vec![
            "--quiet=2".to_owned(),
            option("Dir::Etc::sourcelist", &list),
            option("Dir::Etc::sourceparts", Path::new("-")),
            option("Dir::State::lists", &place("lists")),
            option("Dir::Cache", &place("cache")),
            // The user that apt would change to may not write here.
            option("APT::Sandbox::User", Path::new("root")),
        ];
        let suites = Self { directory: directory.to_path_buf(), options };
        suites.apt_get(&["update", "--error-on=any"])?;
        Ok(suites)
    }

    /// Fetches packages into the directory.
    pub(crate) fn download(&self, packages: &[&str]) -> Outcome {
        self.apt_get(&[&["download"], packages].concat())
    }

    fn apt_get(&self, words: &[&str]) -> Outcome {
        let options = self.options.iter().map(String::as_str);
        let words: Vec<&str> = options.chain(words.iter().copied()).collect();
        Run::program("apt-get", &words).within(&self.directory).read().map(drop)
    }
}

/// Where the machine has its own suite from.
fn source() -> Outcome<String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let value = |key: &str| release.lines().find_map(|line| line.strip_prefix(key));
    let (Some("debian"), Some(codename)) = (value("ID="), value("VERSION_CODENAME=")) else {
        return Err("this machine is no Debian: start servers of your own choice with \
                    LEASEHOLD_TEST_SERVER"
            .to_owned());
    };
    let format = "$(RELEASE) $(COMPONENT) $(REPO_URI)";
    let words = ["indextargets", "--format", format, "Created-By: Packages"];
    let targets = Run::program("apt-get", &words).read()?;
    let ours = format!("{codename} main ");
    let source = targets.lines().find_map(|line| line.strip_prefix(&ours));
    source.map(str::to_owned).ok_or_else(|| {
        format!(
            "no package source for {codename} main in /etc/apt: add one, or use \
                 LEASEHOLD_TEST_SERVER"
        )
    })
}
