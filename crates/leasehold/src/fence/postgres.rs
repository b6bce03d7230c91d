//! Fencing by the locks themselves, if they and the data are in the same PostgreSQL database.
//!
//! A transaction that has passed [`FENCE`] commits before anybody else is granted the name, or not
//! at all. This depends on no clock. Take the lease first, and begin the transaction after that.
//! The fence is exact at READ COMMITTED, REPEATABLE READ and SERIALIZABLE, and only for exclusive
//! leases. It does not separate callers of one client to whom a lease is passed on: end the
//! transaction, with its answer, before the guard is dropped.
//!
//! Cost: one round trip, and one record in the log, without a flush.
//!
//! ```no_run
//! use leasehold::fence::postgres::{FENCE, is_overtaken};
//! # async fn example(
//! #     guard: &leasehold::Guard,
//! #     database: &mut tokio_postgres::Client,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! # fn lost() {}
//! let transaction = database.transaction().await?;
//! let (name, token) = (guard.name().as_str(), i64::from(guard.token()));
//! if let Err(error) = transaction.execute(FENCE, &[&name, &token]).await {
//!     if error.code().is_some_and(|state| is_overtaken(state.code())) {
//!         lost(); // somebody else holds it, or nobody
//!     }
//!     return Err(error.into());
//! }
//! transaction.execute("UPDATE invoice SET charged = true WHERE id = 42", &[]).await?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```

/// The statement that passes or fails a transaction: `$1` is the name, a `text`, and `$2` the
/// token, a `bigint`. [`Guard::release_at_commit`](crate::Guard::release_at_commit) returns a
/// statement that also ends the lease with the commit.
///
/// This is for the schema `leasehold`. With another `schema=`, write that name in place of
/// `leasehold`.
pub const FENCE: &str = "SELECT leasehold.fence($1, $2)";

/// The code with which a fenced transaction fails if its lease is over: `LH001`.
pub const OVERTAKEN: &str = "LH001";

/// Whether the code of an error (SQLSTATE) says that the lease is over. For drivers that show no
/// codes, such as diesel, the name of the error's constraint is the same text.
///
/// Above READ COMMITTED, a transaction may fail with `40001` instead. Repeat it then, as usual.
pub fn is_overtaken(sqlstate: &str) -> bool {
    sqlstate == OVERTAKEN
}
