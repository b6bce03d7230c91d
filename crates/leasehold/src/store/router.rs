//! Store URLs: the scheme selects the kind of store.

use leasehold_core::text::split_scheme;
use leasehold_core::{InvalidInput, Result};

#[cfg(feature = "file")]
use super::file::{File, FileOptions};
use super::finding::Finding;
use super::memory::{self, Memory};
#[cfg(feature = "postgres")]
use super::postgres::{self, Postgres, PostgresOptions};
#[cfg(feature = "redis")]
use super::quorum::Quorum;
#[cfg(feature = "redis")]
use super::redis::{self, Redis, RedisOptions, quorum_node::QuorumNodes};
use super::traits::Store;
#[cfg(any(feature = "postgres", feature = "redis"))]
use super::url::without_password;

/// The kinds of stores that a URL can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    #[cfg(feature = "file")]
    File,
    Memory,
    #[cfg(feature = "postgres")]
    Postgres,
    #[cfg(feature = "redis")]
    Redis,
}

impl Scheme {
    fn of(url: &str) -> Result<Self, InvalidInput> {
        let scheme = url.split_once(':').map_or(url, |(scheme, _)| scheme);
        Self::named(scheme).ok_or_else(|| unknown(url))
    }

    fn named(scheme: &str) -> Option<Self> {
        match scheme {
            #[cfg(feature = "file")]
            "file" => Some(Self::File),
            "memory" => Some(Self::Memory),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => Some(Self::Postgres),
            #[cfg(feature = "redis")]
            _ if Redis::is_named_by(scheme) => Some(Self::Redis),
            _ => None,
        }
    }
}

/// Opens the store that a URL names.
///
/// # Errors
///
/// [`crate::Error::Invalid`] names the part of the URL that is wrong; [`crate::Error::Store`] says
/// why the store could not be opened.
pub async fn connect(url: &str) -> Result<Box<dyn Store>> {
    connect_with(url, |name| std::env::var(name).ok()).await
}

/// Like [`connect`], but passwords that are not in the URL come from `environment` instead of this
/// process's environment. That function gets the names of the variables.
///
/// # Errors
///
/// The same as [`connect`].
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    expect(unused_variables, reason = "only servers ask for passwords")
)]
pub async fn connect_with(
    url: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Box<dyn Store>> {
    match Scheme::of(url)? {
        #[cfg(feature = "file")]
        Scheme::File => Ok(Box::new(File::connect(FileOptions::from_url(url)?).await?)),
        Scheme::Memory => Ok(Box::new(Memory::new())),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => {
            Ok(Box::new(Postgres::open(PostgresOptions::from_url_with(url, environment)?).await?))
        }
        #[cfg(feature = "redis")]
        Scheme::Redis => open(RedisOptions::from_url_with(url, environment)?).await,
    }
}

/// Checks a store URL, without connecting.
///
/// # Errors
///
/// [`InvalidInput`] names the part of the URL that is wrong.
pub fn check_url(url: &str) -> Result<(), InvalidInput> {
    match Scheme::of(url)? {
        #[cfg(feature = "file")]
        Scheme::File => FileOptions::from_url(url).map(drop),
        Scheme::Memory => Ok(()),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => PostgresOptions::from_url(url).map(drop),
        #[cfg(feature = "redis")]
        Scheme::Redis => RedisOptions::from_url(url).map(drop),
    }
}

/// Whether a URL names a store in the memory of this process.
pub(crate) fn is_memory(url: &str) -> bool {
    Scheme::of(url) == Ok(Scheme::Memory)
}

/// Checks all parts of a store for faults that would break a promise, and returns one finding for
/// each check, even if all is well. It changes nothing, and takes no lock.
///
/// Cost: some seconds at most, and a connection to each server.
///
/// # Errors
///
/// If it finds nothing to check: the same errors as [`connect`].
pub async fn examine(url: &str) -> Result<Vec<Finding>> {
    match Scheme::of(url)? {
        #[cfg(feature = "file")]
        Scheme::File => File::examine(url).await,
        Scheme::Memory => Ok(vec![memory::finding()]),
        #[cfg(feature = "postgres")]
        Scheme::Postgres => postgres::examine(url).await,
        #[cfg(feature = "redis")]
        Scheme::Redis => redis::examine(url).await,
    }
}

/// Opens the store that options describe: [`Redis`], or a [`Quorum`] of servers.
///
/// # Errors
///
/// The same as [`Redis::open`]. For a quorum, the error says why no majority can be reached.
///
/// # Cancel safety
///
/// Dropping the future closes what was opened.
#[cfg(feature = "redis")]
pub async fn open(options: RedisOptions) -> Result<Box<dyn Store>> {
    let Some(nodes) = QuorumNodes::of(&options)? else {
        return Ok(Box::new(Redis::open(options).await?));
    };
    let quorum = Quorum::new(nodes.stores())?;
    let quorum = match nodes.timeout {
        Some(timeout) => quorum.timeout(timeout),
        None => quorum,
    };
    nodes.connect().await?;
    Ok(Box::new(quorum))
}

/// A store URL as it may be shown in logs and messages: with `***` for its password. A user without
/// a password is hidden, too, because it may be a password in the wrong place. For text that is not
/// a valid URL, only the scheme is shown: any other part may be a piece of a password.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = split_scheme(url) else { return "***".to_owned() };
    let shown = match Scheme::named(scheme) {
        #[cfg(feature = "file")]
        Some(Scheme::File) => {
            let names_a_host = rest.starts_with("//") && !rest.starts_with("///");
            let is_sound = !rest.contains('?') || FileOptions::from_url(url).is_ok();
            (!names_a_host && is_sound).then(|| url.to_owned())
        }
        Some(Scheme::Memory) => rest.is_empty().then(|| url.to_owned()),
        #[cfg(feature = "postgres")]
        Some(Scheme::Postgres) => {
            PostgresOptions::read(url).ok().and_then(|_| without_password(url))
        }
        #[cfg(feature = "redis")]
        Some(Scheme::Redis) => RedisOptions::read(url).ok().and_then(|_| without_password(url)),
        None => return "***".to_owned(),
    };
    shown.unwrap_or_else(|| format!("{scheme}:***"))
}

fn unknown(url: &str) -> InvalidInput {
    // The features of the schemes that are known, and off.
    let feature = match split_scheme(url).and_then(|(scheme, _)| scheme.split('+').next()) {
        Some("redis" | "rediss" | "valkey" | "valkeys") => "redis",
        Some("postgres" | "postgresql") => "postgres",
        Some("file") => "file",
        _ => "",
    };
    if !feature.is_empty() {
        let why = format!(
            "leasehold was built without the feature `{feature}`, which this store URL needs: add \
             features = [\"{feature}\"] to the dependency"
        );
        return InvalidInput::new("url", why);
    }
    let begins = match split_scheme(url) {
        Some((scheme, rest)) if rest.starts_with("//") => format!("begins with {scheme:?}"),
        // The text may be a password.
        Some(_) | None => "begins with no scheme that is known".to_owned(),
    };
    InvalidInput::new(
        "url",
        format!(
            "the store URL {begins}: use `memory:`, `file:PATH`, \
             `redis://HOST[:PORT][/DB]`, `rediss://…` (TLS), `redis+unix://PATH`, \
             `redis+sentinel://HOST,…/SERVICE`, `redis+cluster://HOST,…`, \
             `redis+quorum://HOST,HOST,HOST` or `postgres://USER@HOST/DATABASE`"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scheme gets there only if its feature is off.
    #[test]
    fn a_store_whose_feature_is_off_is_refused_with_the_name_of_that_feature() {
        let urls = ["file:a", "postgres://u:hunter2@h/d", "redis+cluster://h", "valkey://h"];
        for (url, feature) in urls.into_iter().zip(["file", "postgres", "redis", "redis"]) {
            let refused = unknown(url).to_string();
            assert!(refused.contains(&format!("add features = [\"{feature}\"]")), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }

    #[cfg(feature = "file")]
    #[test]
    fn a_file_is_shown_unless_its_url_is_wrong() {
        assert_eq!(shown_url("file:/a/locks.db"), "file:/a/locks.db");
        for url in ["file:/a/locks.db?hunter2", "file://u:hunter2@h/locks.db"] {
            assert_eq!(shown_url(url), "file:***");
        }
    }
}
