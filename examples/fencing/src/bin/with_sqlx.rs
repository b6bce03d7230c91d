//! Charges an invoice under the fence, with sqlx.

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold::fence::postgres::{FENCE, is_overtaken};
use leasehold::{Client, Guard};
use sqlx::{Connection as _, PgConnection};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Client::connect(&env::var("LEASEHOLD_STORE")?).await?;
    let mut database = PgConnection::connect(&env::var("DATABASE_URL")?).await?;

    let lock = locks.mutex("invoices/42").ttl(Duration::from_secs(3));
    let guard = lock.acquire().await?; // first the lease, then the transaction
    fencing::dawdle()?;
    match charge(&mut database, &guard).await {
        Ok(()) => println!("charged"),
        Err(error) => {
            let refusal = error.as_database_error().ok_or("the database was not reached")?;
            let code = refusal.code().unwrap_or_default();
            assert!(is_overtaken(&code), "{refusal}");
            println!("{code} {}", refusal.message());
        }
    }
    drop(guard); // or `release().await?`, which says so if the lease was lost
    locks.close().await?;
    Ok(())
}

async fn charge(database: &mut PgConnection, guard: &Guard) -> Result<(), sqlx::Error> {
    let mut transaction = database.begin().await?;
    let (name, token) = (guard.name().as_str(), i64::from(guard.token()));
    sqlx::query(FENCE).bind(name).bind(token).execute(&mut *transaction).await?;
    sqlx::query("UPDATE invoice SET charged = charged + 1 WHERE id = 42")
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}
