//! Where the data parts live: the trait [`DataStore`], and what opens one by its URL.
//!
//! On Redis and in a file they use the connections of a store of locks ([`leasehold::store`]), and
//! keep what is theirs under keys, or in tables, of their own.

#[cfg(feature = "file")]
mod file;
mod memory;
#[cfg(feature = "redis")]
mod redis;

use std::fmt;

use futures_util::future::BoxFuture;
use leasehold::Result;
use leasehold::error::StoreError;

#[cfg(feature = "file")]
pub use self::file::File;
pub use self::memory::Memory;
#[cfg(feature = "redis")]
pub use self::redis::REDIS_RIGHTS;
use crate::model::{Answer, Request};

/// One place where the data parts live: stock, order numbers, queues and cells.
///
/// A store applies the step of the part ([`model`](crate::model)) to the record of a name,
/// atomically, with its own wall clock.
pub trait DataStore: Send + Sync + fmt::Debug + 'static {
    /// Does one step.
    ///
    /// # Errors
    ///
    /// [`StoreError::may_have_executed`] tells whether it is certain that nothing was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the step is done.
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>>;
}

impl<S: DataStore + ?Sized> DataStore for Box<S> {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        (**self).apply(request)
    }
}

/// Opens the store that a URL names.
///
/// # Errors
///
/// As [`leasehold::store::connect`]; [`InvalidInput`](leasehold::Error::Invalid) for a quorum,
/// which is for locks only.
pub(crate) async fn connect(url: &str) -> Result<Box<dyn DataStore>> {
    leasehold::store::check_url(url)?;
    match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        #[cfg(feature = "file")]
        "file" => Ok(Box::new(File::from(leasehold::store::File::connect(url).await?))),
        "memory" => Ok(Box::new(Memory::new())),
        #[cfg(feature = "redis")]
        _ => Ok(Box::new(leasehold::store::Redis::connect(url).await?)),
        #[cfg(not(feature = "redis"))]
        scheme => {
            let why = format!("`leasehold-data` was built without its feature for `{scheme}:`");
            Err(leasehold::error::InvalidInput::new("url", why).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_bad_url_is_refused_and_its_password_is_not_shown() {
        for url in [
            "h:6379",
            "redis://u:hunter@h:x/",
            "redis:/u:hunter@h/",
            "redis+quorum://u:hunter@a,b,c/",
            "file://u:hunter@h/c",
        ] {
            let refused = connect(url).await.unwrap_err();
            assert!(matches!(refused, leasehold::Error::Invalid(_)), "{refused:?}");
            assert!(!format!("{refused} {refused:?}").contains("hunter"), "{refused:?}");
        }
    }
}
