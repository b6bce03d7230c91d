//! Pages of the names that begin with a prefix.

use leasehold_core::{LockName, Now, StoreError};

use super::connection::Sessions;
use super::record::{damaged, now};

/// The clock, and the names that begin with `prefix` and come after `beyond`, each with a flag that
/// says whether anybody holds or awaits it.
pub(crate) async fn names(
    sessions: &Sessions,
    (prefix, beyond): (&str, &str),
    at_most: u32,
) -> Result<(Now, Vec<(LockName, bool)>), StoreError> {
    let at_most = i64::from(at_most);
    let values = values![TEXT prefix, TEXT beyond, INT8 at_most];
    let rows = sessions.query("SELECT * FROM leasehold.list_4($1, $2, $3)", &values).await?;
    let now = now(rows.first().ok_or_else(|| damaged("an answer"))?.get(0))?;
    // A name that is not one of ours belongs to the program that put it there.
    let names = rows.iter().filter_map(|row| {
        Some((LockName::new(row.get::<_, Option<String>>(1)?).ok()?, row.get(2))) //
    });
    Ok((now, names.collect()))
}
