//! Store URLs: the scheme selects the kind of store.

#[cfg(feature = "file")]
use std::path::PathBuf;

use leasehold_core::text::split_scheme;
use leasehold_core::{InvalidInput, Result};

#[cfg(feature = "file")]
use super::file::{self, File};
use super::finding::Finding;
use super::memory::{self, Memory};
use super::place::{Environment, Place, invalid, of_process};
#[cfg(feature = "postgres")]
use super::postgres::{self, Postgres, PostgresOptions};
#[cfg(feature = "redis")]
use super::quorum::Quorum;
#[cfg(feature = "redis")]
use super::redis::{self, Redis, RedisOptions, quorum_node::QuorumNodes};
use super::traits::Store;
#[cfg(any(feature = "postgres", feature = "redis"))]
use super::url::without_password;

/// The options that a URL gives.
enum Options {
    #[cfg(feature = "file")]
    File(PathBuf),
    Memory,
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresOptions>),
    #[cfg(feature = "redis")]
    Redis(Box<RedisOptions>),
}

impl Options {
    /// Reads a URL. Without an environment, passwords may be missing, and options may exclude each
    /// other.
    #[cfg_attr(
        not(any(feature = "postgres", feature = "redis")),
        expect(unused_variables, reason = "only servers ask for passwords")
    )]
    fn read(url: &str, environment: Option<Environment<'_>>) -> Result<Self, InvalidInput> {
        match scheme(url) {
            #[cfg(feature = "file")]
            "file" => File::path(url).map(Self::File),
            "memory" => Ok(Self::Memory),
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                Ok(Self::Postgres(Box::new(PostgresOptions::read(url, environment)?)))
            }
            #[cfg(feature = "redis")]
            scheme if feature_of(scheme) == Some("redis") => {
                Ok(Self::Redis(Box::new(RedisOptions::read(url, environment)?)))
            }
            _ => Err(unknown(url)),
        }
    }
}

fn scheme(url: &str) -> &str {
    split_scheme(url).map_or("", |(scheme, _)| scheme)
}

/// Opens the store that a URL names.
///
/// # Errors
///
/// [`crate::Error::Invalid`] names the part of the URL that is wrong; [`crate::Error::Store`] says
/// why the store could not be opened.
pub async fn connect(url: &str) -> Result<Box<dyn Store>> {
    connect_with(url, of_process).await
}

/// Like [`connect`], but passwords that are not in the URL come from `environment` instead of this
/// process's environment. That function gets the names of the variables.
///
/// # Errors
///
/// The same as [`connect`].
pub async fn connect_with(
    url: &str,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Box<dyn Store>> {
    match Options::read(url, Some(&environment))? {
        #[cfg(feature = "file")]
        Options::File(path) => Ok(Box::new(File::connect(path).await?)),
        Options::Memory => Ok(Box::new(Memory::new())),
        #[cfg(feature = "postgres")]
        Options::Postgres(options) => Ok(Box::new(Postgres::open(*options).await?)),
        #[cfg(feature = "redis")]
        Options::Redis(options) => open(*options).await,
    }
}

/// Checks a store URL, without connecting.
///
/// # Errors
///
/// [`InvalidInput`] names the part of the URL that is wrong.
pub fn check_url(url: &str) -> Result<(), InvalidInput> {
    Options::read(url, Some(&of_process)).map(drop)
}

/// Whether a URL names a store in the memory of this process.
pub(crate) fn is_memory(url: &str) -> bool {
    scheme(url) == "memory"
}

/// The place that a valid URL names.
#[doc(hidden)]
pub fn place(url: &str) -> Option<Place> {
    Some(match Options::read(url, None).ok()? {
        #[cfg(feature = "file")]
        Options::File(path) => {
            let path = std::path::absolute(&path).unwrap_or(path);
            Place { id: format!("file:{}", path.display()), remote: None }
        }
        Options::Memory => Place { id: url.to_owned(), remote: None },
        #[cfg(feature = "postgres")]
        Options::Postgres(options) => {
            Place::on_servers(url, &options.servers, &options.selection())
        }
        #[cfg(feature = "redis")]
        Options::Redis(options) => {
            Place::on_servers(url, options.servers.addresses(), &options.selection())
        }
    })
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
    match Options::read(url, Some(&of_process))? {
        #[cfg(feature = "file")]
        Options::File(path) => file::examine(&path),
        Options::Memory => Ok(vec![memory::finding()]),
        #[cfg(feature = "postgres")]
        Options::Postgres(options) => postgres::examine(*options).await,
        #[cfg(feature = "redis")]
        Options::Redis(options) => redis::examine(*options).await,
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
    let is_known = |scheme| scheme == "memory" || feature_of(scheme).is_some();
    let known = split_scheme(url).filter(|(scheme, _)| is_known(*scheme));
    let Some((scheme, rest)) = known else { return "***".to_owned() };
    let shown = match Options::read(url, None) {
        #[cfg(feature = "file")]
        Ok(Options::File(_)) => Some(url.to_owned()),
        Ok(Options::Memory) => rest.is_empty().then(|| url.to_owned()),
        #[cfg(any(feature = "postgres", feature = "redis"))]
        Ok(_) => without_password(url),
        // A path without options is not a part of a password.
        Err(_) if scheme == "file" && !rest.starts_with("//") && !rest.contains('?') => {
            Some(url.to_owned())
        }
        Err(_) => None,
    };
    shown.unwrap_or_else(|| format!("{scheme}:***"))
}

/// The feature that a store with this scheme needs.
fn feature_of(scheme: &str) -> Option<&'static str> {
    match scheme.split('+').next()? {
        "redis" | "rediss" | "valkey" | "valkeys" => Some("redis"),
        "postgres" | "postgresql" => Some("postgres"),
        "file" => Some("file"),
        _ => None,
    }
}

fn unknown(url: &str) -> InvalidInput {
    // The feature is off.
    if let Some((scheme, _)) = split_scheme(url)
        && let Some(feature) = feature_of(scheme)
    {
        return invalid(format!(
            "leasehold was built without the feature `{feature}`, which this store URL needs: add \
             features = [\"{feature}\"] to the dependency"
        ));
    }
    let begins = match split_scheme(url) {
        Some((scheme, rest)) if rest.starts_with("//") => format!("begins with {scheme:?}"),
        // The text may be a password.
        Some(_) | None => "begins with no scheme that is known".to_owned(),
    };
    invalid(format!(
        "the store URL {begins}: use `memory:`, `file:PATH`, `redis://HOST[:PORT][/DB]`, \
         `rediss://…` (TLS), `redis+unix://PATH`, `redis+sentinel://HOST,…/SERVICE`, \
         `redis+cluster://HOST,…`, `redis+quorum://HOST,HOST,HOST` or \
         `postgres://USER@HOST/DATABASE`"
    ))
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

    #[test]
    fn the_memory_of_a_process_is_named_with_its_colon() {
        assert!(is_memory("memory:") && check_url("memory:").is_ok());
        for url in ["memory", "MEMORY:", " memory:", "file", ""] {
            assert!(!is_memory(url) && check_url(url).is_err(), "{url:?}");
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
