//! Listings: names by prefix, in one list or in pages.

use leasehold_core::{Answer, LockName, Now, Page, Reply, StoreError, StoreErrorKind};
use tokio_postgres::types::Type;

use super::connection::Sessions;
use super::schema::Statements;

/// The rows of a listing: the clock, and each name, with a flag that says whether anybody holds or
/// awaits it.
struct Listed {
    now: Now,
    names: Vec<(LockName, bool)>,
}

async fn rows(
    (sessions, statements): (&Sessions, &Statements),
    prefix: &str,
    beyond: Option<&str>,
    (at_most, with_unused): (u32, bool),
) -> Result<Listed, StoreError> {
    let (beyond, at_most) = (beyond.unwrap_or_default(), i64::from(at_most));
    let values = [
        (&prefix as _, Type::TEXT),
        (&beyond as _, Type::TEXT),
        (&at_most as _, Type::INT8),
        (&with_unused as _, Type::BOOL),
    ];
    let rows = sessions.query(&statements.list, &values).await?;
    let now_us = rows.first().and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok());
    let now_us = now_us.ok_or_else(|| {
        StoreError::new(StoreErrorKind::Corrupt, "the clock of the database is before 1970")
    })?;
    let names = rows.iter().filter_map(|row| {
        let (name, is_used): (Option<String>, Option<bool>) = (row.get(1), row.get(2));
        // A row whose name is not one of ours is skipped: it belongs to the program that put it
        // there.
        Some((LockName::new(name?).ok()?, is_used?))
    });
    let now = Now { lease_us: now_us, token_us: now_us };
    Ok(Listed { now, names: names.collect() })
}

/// The names in use that begin with `prefix`.
pub(crate) async fn list(
    store: (&Sessions, &Statements),
    prefix: &str,
    limit: u32,
) -> Result<Answer, StoreError> {
    let Listed { now, names } = rows(store, prefix, None, (limit, false)).await?;
    Ok(Answer::new(now, Reply::Names(names.into_iter().map(|(name, _)| name).collect())))
}

/// Of the next `keys` names after `after`, those that are in use.
pub(crate) async fn page(
    store: (&Sessions, &Statements),
    prefix: &str,
    after: Option<&str>,
    keys: u32,
) -> Result<Answer, StoreError> {
    let Listed { now, names } = rows(store, prefix, after, (keys, true)).await?;
    let mut page = Page::default();
    for (name, is_used) in &names {
        page.scan(name, *is_used, keys);
    }
    Ok(Answer::new(now, Reply::Page(page)))
}
