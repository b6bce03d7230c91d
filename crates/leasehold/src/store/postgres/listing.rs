//! Pages of the names that begin with a prefix.

use leasehold_core::{Answer, LockName, Page, Reply, StoreError};

use super::connection::Sessions;
use super::record::{damaged, now};

/// The names that begin with `prefix` and come after `beyond`, each with a flag that says whether
/// anybody holds or awaits it.
pub(crate) async fn page(
    sessions: &Sessions,
    (prefix, beyond): (&str, &str),
    keys: u32,
) -> Result<Answer, StoreError> {
    let (at_most, mut page) = (i64::from(keys), Page::default());
    let values = values![TEXT prefix, TEXT beyond, INT8 at_most];
    let rows = sessions.query(include_str!("schema/list.sql"), &values).await?;
    for row in &rows {
        // A name that is not one of ours belongs to the program that put it there.
        if let Some(Ok(name)) = row.get::<_, Option<String>>(1).map(LockName::new) {
            page.scan(&name, row.get(2), keys);
        }
    }
    let now = now(rows.first().ok_or_else(|| damaged("an answer"))?.get(0))?;
    Ok(Answer::new(now, Reply::Page(page)))
}
