//! Logins at servers. A password is never shown. Neither is the user in a URL, because it may be a
//! password in the wrong place.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;

use leasehold_core::{BoxFuture, InvalidInput};

use crate::mutex::Mutex;

/// The environment variable that names a file with a password.
pub(crate) const PASSWORD_FILE: &str = "LEASEHOLD_PASSWORD_FILE";

/// A text that no message and no `Debug` shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the server only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

debug_as!(Secret => |_, f| f.write_str("(hidden)"));

/// A user and its password at servers. No `Debug` shows either of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Login {
    /// The name of the user or role.
    pub user: Option<Secret>,
    /// The password, or its source.
    pub password: Option<Password>,
}

#[cfg(feature = "redis")]
impl Login {
    /// The name of the user; without one, that of Redis for all users without a name.
    pub(crate) fn user(&self) -> &str {
        self.user.as_ref().map_or("default", Secret::reveal)
    }
}

/// The result of asking for a password.
type Fetched = Result<Secret, Box<dyn Error + Send + Sync>>;

/// A password: a text, or a source that is asked with each new connection. A source equals only its
/// clones.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    /// The file that a variable of the environment names. It may be replaced.
    File(String),
    Fixed(Secret),
    Rotating(Ask),
}

#[derive(Clone)]
struct Ask(Arc<dyn Fn() -> BoxFuture<'static, Fetched> + Send + Sync>);

impl PartialEq for Ask {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Ask {}

impl Password {
    /// Asks `source` for the password with each new connection, so that the password can rotate.
    /// `source` runs on the runtime that opens the connection, for the rest of the time to connect
    /// at most. If `source` fails, the connection fails as if the server were not reached. The
    /// error of `source` is in the chain of [`Error::source`] of this failure, but not in the
    /// failure's text.
    pub fn from_source<F, P>(source: F) -> Self
    where
        F: Fn() -> P + Send + Sync + 'static,
        P: Future<Output = Result<Secret, Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        Self(Source::Rotating(Ask(Arc::new(move || Box::pin(source())))))
    }

    /// The first line of this file, which each new connection reads. A pipe is read once, by the
    /// first connection of this process.
    pub(crate) fn from_file(path: String) -> Result<Self, InvalidInput> {
        if !is_pipe(&path) {
            first_line(&path)?;
        }
        Ok(Self(Source::File(path)))
    }

    /// The password of a connection that is being opened.
    pub(crate) async fn fetch(&self) -> Fetched {
        match &self.0 {
            Source::File(path) => Ok(first_line(path)?),
            Source::Fixed(secret) => Ok(secret.clone()),
            Source::Rotating(source) => source.0().await,
        }
    }
}

/// The first lines of pipes, which say them once.
static SAID: Mutex<BTreeMap<String, Secret>> = Mutex::new(BTreeMap::new());

fn first_line(path: &str) -> Result<Secret, InvalidInput> {
    // Not for files: a child that was forked meanwhile would find it locked for ever.
    let mut said = is_pipe(path).then(|| SAID.lock());
    if let Some(secret) = said.as_ref().and_then(|said| said.get(path)) {
        return Ok(secret.clone());
    }
    let text = fs::read_to_string(path).map_err(|error| {
        InvalidInput::new("url", format!("{PASSWORD_FILE} names {path:?}: {error}"))
    })?;
    let secret = Secret::from(text.lines().next().unwrap_or_default());
    if let Some(said) = &mut said {
        said.insert(path.to_owned(), secret.clone());
    }
    Ok(secret)
}

/// Whether this is a pipe, such as a shell makes of `<(pass redis)`.
fn is_pipe(path: &str) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

impl<T: Into<String>> From<T> for Password {
    fn from(text: T) -> Self {
        Self(Source::Fixed(Secret(text.into())))
    }
}

debug_as!(Password => |_, f| f.write_str("(hidden)"));
