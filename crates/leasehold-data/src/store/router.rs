//! Store URLs: the scheme selects the store.

use std::sync::Arc;

use leasehold::Result;
#[cfg(feature = "redis")]
use leasehold::store::{Redis, RedisOptions};

use super::data_store::DataStore;
#[cfg(feature = "file")]
use super::file::File;
use super::memory::Memory;

/// Opens the store that a URL names.
///
/// # Errors
///
/// The same as [`leasehold::store::connect`], and [`InvalidInput`](leasehold::Error::Invalid) for a
/// quorum, which is for locks only.
pub(crate) async fn connect(url: &str) -> Result<Arc<dyn DataStore>> {
    leasehold::store::check_url(url)?;
    match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
        #[cfg(feature = "file")]
        "file" => Ok(Arc::new(File::from(leasehold::store::File::open(
            leasehold::store::File::path(url)?,
        )?))),
        "memory" => Ok(Arc::new(Memory::new())),
        #[cfg(feature = "redis")]
        scheme if !scheme.starts_with("postgres") => {
            Ok(Arc::new(Redis::open(RedisOptions::from_url(url)?).await?))
        }
        scheme => {
            let why = format!("`{scheme}:` keeps no data: use memory:, file: or a redis:// URL");
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
            "postgres://u:hunter@h/d",
            "file://u:hunter@h/c",
        ] {
            let refused = connect(url).await.unwrap_err();
            assert!(matches!(refused, leasehold::Error::Invalid(_)), "{refused:?}");
            assert!(!format!("{refused} {refused:?}").contains("hunter"), "{refused:?}");
        }
    }
}
