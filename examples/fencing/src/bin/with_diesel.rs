//! Charges an invoice under the fence, with diesel.
//!
//! diesel does not show the code of an error (SQLSTATE). It shows the name of a constraint, so the
//! fence gives its code there, too.

use std::env;
use std::error::Error;
use std::time::Duration;

use diesel::result::Error::DatabaseError;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _};
use leasehold::fence::postgres::{FENCE, is_overtaken};
use leasehold::{Client, Guard};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Client::connect(&env::var("LEASEHOLD_STORE")?).await?;
    let mut database = AsyncPgConnection::establish(&env::var("DATABASE_URL")?).await?;

    let lock = locks.mutex("invoices/42").ttl(Duration::from_secs(3));
    let guard = lock.acquire().await?; // first the lease, then the transaction
    fencing::dawdle()?;
    match charge(&mut database, &guard).await {
        Ok(()) => println!("charged"),
        Err(DatabaseError(_, refusal)) => {
            let code = refusal.constraint_name().unwrap_or_default();
            assert!(is_overtaken(code), "{}", refusal.message());
            println!("{code} {}", refusal.message());
        }
        Err(other) => return Err(other.into()),
    }
    drop(guard); // or `release().await?`, which says so if the lease was lost
    locks.close().await?;
    Ok(())
}

async fn charge(
    database: &mut AsyncPgConnection,
    guard: &Guard,
) -> Result<(), diesel::result::Error> {
    let (name, token) = (guard.name().as_str(), i64::from(guard.token()));
    database
        .transaction(async |transaction| {
            let fence = sql_query(FENCE).bind::<Text, _>(name).bind::<BigInt, _>(token);
            fence.execute(transaction).await?;
            let charge = sql_query("UPDATE invoice SET charged = charged + 1 WHERE id = 42");
            charge.execute(transaction).await?;
            Ok(())
        })
        .await
}
