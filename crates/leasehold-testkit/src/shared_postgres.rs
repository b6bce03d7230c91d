//! A PostgreSQL server that the tests of one program share while they run, each in its own schema.

use std::io::Result;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::postgres::Postgres;

/// The settings for prepared transactions, without flushes to the disk.
const SETTINGS: [&str; 2] = ["fsync=off", "max_prepared_transactions=4"];

/// The server, and the name of a new schema; `None` where PostgreSQL is not installed.
pub fn shared_postgres() -> Result<Option<(Arc<Postgres>, String)>> {
    static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    static SCHEMAS: AtomicU32 = AtomicU32::new(0);
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let server = match shared.upgrade() {
        Some(server) => server,
        None => match Postgres::start_with(&SETTINGS)? {
            Some(server) => Arc::new(server),
            None => return Ok(None),
        },
    };
    *shared = Arc::downgrade(&server);
    let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
    Ok(Some((server, format!("locks_{number}"))))
}
