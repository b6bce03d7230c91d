//! Charges an invoice under the fence, with tokio-postgres.

use std::env;
use std::error::Error;
use std::time::Duration;

use leasehold::fence::postgres::{FENCE, is_overtaken};
use leasehold::{Client, Guard};
use tokio_postgres::NoTls;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let locks = Client::connect(&env::var("LEASEHOLD_STORE")?).await?;
    let (mut database, connection) =
        tokio_postgres::connect(&env::var("DATABASE_URL")?, NoTls).await?;
    tokio::spawn(connection);

    let lock = locks.mutex("invoices/42").ttl(Duration::from_secs(3));
    let guard = lock.acquire().await?; // first the lease, then the transaction
    fencing::dawdle()?;
    match charge(&mut database, &guard).await {
        Ok(()) => println!("charged"),
        Err(error) => {
            let refusal = error.as_db_error().ok_or("the database was not reached")?;
            assert!(is_overtaken(refusal.code().code()), "{refusal}");
            println!("{} {}", refusal.code().code(), refusal.message());
        }
    }
    drop(guard); // or `release().await?`, which says so if the lease was lost
    locks.close().await?;
    Ok(())
}

async fn charge(
    database: &mut tokio_postgres::Client,
    guard: &Guard,
) -> Result<(), tokio_postgres::Error> {
    let transaction = database.transaction().await?;
    let (name, token) = (guard.name().as_str(), i64::from(guard.token()));
    transaction.execute(FENCE, &[&name, &token]).await?;
    transaction.execute("UPDATE invoice SET charged = charged + 1 WHERE id = 42", &[]).await?;
    transaction.commit().await
}
