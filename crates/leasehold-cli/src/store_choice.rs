//! Chooses the store that the command uses.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::report::{Failure, STORE, Verbosity};
use crate::secrets::Secrets;
use crate::store_url::StoreUrl;
use crate::user::User;

/// The file in which an administrator names the store for all users of the machine.
const SYSTEM_CONFIGURATION: &str = "/etc/leasehold/store";

/// The store of root if no store is configured.
const SYSTEM_LOCKS: &str = "/var/lib/leasehold/locks.db";

/// The URL of the store, the reason for this choice, and the source of passwords that the URL
/// lacks.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub(crate) url: StoreUrl,
    pub(crate) because: Because,
    pub(crate) secrets: Secrets,
}

/// The origin of the choice of a store.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Because {
    /// The store is named by the handle of a lease that was taken there.
    Handle,
    /// A configuration file.
    Configuration(PathBuf),
    /// No store is configured, so it is a file of this user on this machine.
    Default { path: PathBuf, user: String },
    /// `LEASEHOLD_STORE`.
    Environment,
    /// `--store`.
    Option,
}

impl fmt::Display for Because {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Configuration(path) => write!(f, "{}", path.display()),
            Self::Default { user, .. } => {
                write!(f, "no store configured: locks hold for user {user} on this machine only")
            }
            Self::Environment => f.write_str("LEASEHOLD_STORE"),
            Self::Handle => f.write_str("the handle"),
            Self::Option => f.write_str("--store"),
        }
    }
}

/// The facts on which the choice depends, so that a test can set them.
#[derive(Debug)]
struct Surroundings {
    store: Option<OsString>,
    home: Option<PathBuf>,
    config_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
    system_configuration: PathBuf,
    /// Looks the user up. It is called only if no store is configured, because the service with the
    /// names of users may be slow.
    user: fn() -> User,
}

impl Surroundings {
    fn of_this_process() -> Self {
        // The XDG Base Directory Specification says to ignore relative paths in these variables.
        let absolute = |name| {
            std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
        };
        Self {
            store: std::env::var_os("LEASEHOLD_STORE"),
            home: absolute("HOME"),
            config_home: absolute("XDG_CONFIG_HOME"),
            state_home: absolute("XDG_STATE_HOME"),
            system_configuration: SYSTEM_CONFIGURATION.into(),
            user: User::of_this_process,
        }
    }

    fn below_home(&self, set: Option<&PathBuf>, usual: &str) -> Option<PathBuf> {
        set.cloned().or_else(|| self.home.as_ref().map(|home| home.join(usual)))
    }
}

/// Chooses the store: `--store`, `LEASEHOLD_STORE`, the user's configuration, the machine's, or a
/// file of this user on this machine. The file is not shared by all users, because every user who
/// may write to it could forge every lock in it.
///
/// # Errors
///
/// If a store is configured but the configuration cannot be read, that is an error, and the next
/// place is not tried. Otherwise ten machines could each take a local lock, and nobody would
/// notice.
pub(crate) fn choose(option: Option<&StoreUrl>) -> Result<Choice, Failure> {
    choose_in(&Surroundings::of_this_process(), option)
}

fn choose_in(around: &Surroundings, option: Option<&StoreUrl>) -> Result<Choice, Failure> {
    if let Some(url) = option {
        return chosen(url.reveal(), Because::Option);
    }
    if let Some(value) = &around.store {
        return by_variable(value);
    }
    let user = around.below_home(around.config_home.as_ref(), ".config");
    let user = user.map(|directory| directory.join("leasehold/store"));
    for path in user.into_iter().chain([around.system_configuration.clone()]) {
        match std::fs::read_to_string(&path) {
            Ok(text) => return by_configuration(&text, path),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => {
                return Err(Failure::usage(format!("cannot read {}: {error}", path.display())));
            }
        }
    }
    let user = (around.user)();
    let path = default_path(around, &user)?;
    let url = path.to_str().map(|path| StoreUrl::from(format!("file:{path}").as_str()));
    let url = url.ok_or_else(|| {
        Failure::usage(format!("the path {} is not UTF-8: give --store", path.display()))
    })?;
    let because = Because::Default { path, user: user.name };
    Ok(Choice { url, because, secrets: Secrets::OfEnvironment })
}

/// The store that this value of `LEASEHOLD_STORE` names.
pub(crate) fn by_variable(value: &OsStr) -> Result<Choice, Failure> {
    let url = value.to_str().ok_or_else(|| Failure::usage("LEASEHOLD_STORE is not UTF-8"))?;
    lasting(chosen(url, Because::Environment)?)
}

/// The store that a configuration with this text names.
pub(crate) fn by_configuration(text: &str, path: impl Into<PathBuf>) -> Result<Choice, Failure> {
    let path = path.into();
    lasting(chosen(configured(text, &path)?, Because::Configuration(path))?)
}

/// The one line of a configuration that is neither empty nor a comment.
fn configured<'a>(text: &'a str, path: &Path) -> Result<&'a str, Failure> {
    let lines = text.lines().map(str::trim);
    let mut urls = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let url = urls.next().unwrap_or_default();
    match urls.next() {
        None => Ok(url),
        Some(_) => Err(Failure::usage(format!(
            "{} has several lines, and there is one store: leave one, and begin comments with #",
            path.display()
        ))),
    }
}

/// Refuses a relative path in a configuration: it would name another file in every directory.
fn lasting(choice: Choice) -> Result<Choice, Failure> {
    match choice.url.reveal().strip_prefix("file:") {
        Some(path) if !path.starts_with(['/', '~']) => Err(Failure::usage(format!(
            "{} says {}, which is another file in every directory: write file:/ and the whole path",
            choice.because, choice.url
        ))),
        Some(_) | None => Ok(choice),
    }
}

fn chosen(url: &str, because: Because) -> Result<Choice, Failure> {
    if url.is_empty() {
        let why = format!("{because} names no store: write a URL, or remove it");
        return Err(Failure::usage(why));
    }
    if url.split(':').next() == Some("memory") {
        let why = format!(
            "{because} says `memory`, whose locks nobody else would see: write `file:PATH` or \
             `redis://HOST`"
        );
        return Err(Failure::usage(why));
    }
    Ok(Choice { url: url.into(), because, secrets: Secrets::OfEnvironment })
}

fn default_path(around: &Surroundings, user: &User) -> Result<PathBuf, Failure> {
    if user.is_root {
        return Ok(SYSTEM_LOCKS.into());
    }
    let state = around.below_home(around.state_home.as_ref(), ".local/state").ok_or_else(|| {
        Failure::usage(
            "no store is configured, and without HOME there is no place for one: give --store or \
             set LEASEHOLD_STORE",
        )
    })?;
    Ok(state.join("leasehold/locks.db"))
}

impl Choice {
    /// Warns that locks hold for this user on this machine only, if nobody chose the store.
    pub(crate) fn warn_if_local(&self, verbosity: Verbosity) {
        if let Because::Default { path, user } = &self.because {
            let path = path.display();
            verbosity.remark(format_args!(
                "LEASEHOLD_STORE is not set: locks hold for {user} on this machine only ({path})"
            ));
        }
    }

    /// Makes the default store's directory, for its owner only.
    pub(crate) fn prepare(&self) -> Result<(), Failure> {
        let Because::Default { path, .. } = &self.because else { return Ok(()) };
        let directory = path.parent().unwrap_or(path);
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
            let directory = directory.display();
            Failure::new(
                STORE,
                format!("cannot make {directory}: {error}: give --store or set LEASEHOLD_STORE"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Surroundings {
        Surroundings {
            store: None,
            home: None,
            config_home: None,
            state_home: None,
            system_configuration: "/nowhere/store".into(),
            user: || User { name: "sre".into(), is_root: false },
        }
    }

    fn choice(around: &Surroundings, option: Option<&str>) -> Choice {
        choose_in(around, option.map(StoreUrl::from).as_ref()).unwrap()
    }

    fn configure(directory: &Path, text: &str) {
        std::fs::create_dir_all(directory.join("leasehold")).unwrap();
        std::fs::write(directory.join("leasehold/store"), text).unwrap();
    }

    #[test]
    fn the_option_comes_before_the_environment_and_that_before_every_file() {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), "# for all jobs\n\n  redis://configured/#1 \n# second\n");
        let mut around = nowhere();
        around.config_home = Some(directory.path().to_owned());
        assert_eq!(choice(&around, None).url.reveal(), "redis://configured/#1");
        around.store = Some("redis://environment/".into());
        assert_eq!(choice(&around, None).because, Because::Environment);
        assert_eq!(choice(&around, Some("redis://option/")).url.reveal(), "redis://option/");
    }

    #[test]
    fn the_users_configuration_comes_before_the_machines() {
        let (user, machine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        configure(&user.path().join(".config"), "redis://user/");
        configure(machine.path(), "redis://machine/");
        let mut around = nowhere();
        around.system_configuration = machine.path().join("leasehold/store");
        assert_eq!(choice(&around, None).url.reveal(), "redis://machine/");
        around.home = Some(user.path().to_owned());
        assert_eq!(choice(&around, None).url.reveal(), "redis://user/");
    }

    #[test]
    fn what_is_set_but_empty_or_unreadable_is_an_error_and_not_a_local_lock() {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), "# none\n\n");
        let mut around = nowhere();
        around.config_home = Some(directory.path().to_owned());
        assert!(choose_in(&around, None).unwrap_err().message.contains("names no store"));
        std::fs::remove_file(directory.path().join("leasehold/store")).unwrap();
        std::fs::create_dir(directory.path().join("leasehold/store")).unwrap();
        assert!(choose_in(&around, None).unwrap_err().message.contains("cannot read"));
        around.store = Some("".into());
        assert!(choose_in(&around, None).unwrap_err().message.contains("LEASEHOLD_STORE"));
        assert!(choose_in(&nowhere(), Some(&"memory:".into())).is_err());
        assert!(choose_in(&nowhere(), Some(&"memory".into())).is_err());
    }

    #[test]
    fn of_several_lines_none_is_chosen() {
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), "redis://a/\n# and\nredis://b/\n");
        let around = Surroundings { config_home: Some(directory.path().to_owned()), ..nowhere() };
        assert!(choose_in(&around, None).unwrap_err().message.contains("several lines"));
    }

    #[test]
    fn a_relative_path_is_a_choice_for_one_command_only() {
        let mut around = nowhere();
        for (path, whole) in [("locks.db", false), ("./a/locks.db", false), ("/a/locks.db", true)] {
            let url = format!("file:{path}");
            around.store = Some(url.clone().into());
            assert_eq!(choose_in(&around, None).is_ok(), whole, "{path}");
            assert_eq!(choice(&around, Some(&url)).url.reveal(), url);
        }
        let directory = tempfile::tempdir().unwrap();
        configure(directory.path(), "file:locks.db\n");
        let around = Surroundings { config_home: Some(directory.path().to_owned()), ..nowhere() };
        let refusal = choose_in(&around, None).unwrap_err();
        assert!(refusal.message.contains("another file in every directory"), "{refusal:?}");
        assert!(refusal.message.contains("leasehold/store says file:locks.db"), "{refusal:?}");
    }

    #[test]
    fn who_has_no_home_is_told_to_choose_a_store() {
        let because =
            Because::Default { path: "/proc/nowhere/locks.db".into(), user: "www".into() };
        let choice = Choice { url: "file:".into(), because, secrets: Secrets::OfEnvironment };
        let failure = choice.prepare().unwrap_err();
        assert!(failure.message.ends_with("give --store or set LEASEHOLD_STORE"), "{failure:?}");
    }

    #[test]
    fn without_any_choice_the_locks_are_in_a_file_of_the_user_or_of_the_machine() {
        let mut around = nowhere();
        assert!(choose_in(&around, None).unwrap_err().message.contains("HOME"));
        around.home = Some("/home/u".into());
        assert_eq!(
            choice(&around, None).url.reveal(),
            "file:/home/u/.local/state/leasehold/locks.db"
        );
        around.state_home = Some("/state".into());
        assert_eq!(choice(&around, None).url.reveal(), "file:/state/leasehold/locks.db");
        around.user = || User { name: "root".into(), is_root: true };
        assert_eq!(choice(&around, None).url.reveal(), "file:/var/lib/leasehold/locks.db");
    }
}
