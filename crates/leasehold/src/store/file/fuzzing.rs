//! What a database says of a name, as a target of fuzzing.

use leasehold_core::model;
use leasehold_core::{Action, LockName, Now};
use rusqlite::Connection;

use super::location::Location;
use super::record;
use super::rows::Source;
use super::rules::RULES;
use super::schema;

/// When the record is read.
const NOW: Now = Now { lease_us: 1_000_000_000, token_us: 1_800_000_000_000_000 };

thread_local! {
    static DATABASE: Option<Connection> = {
        let connection = Connection::open_in_memory().ok();
        connection.and_then(|mut connection| {
            schema::prepare(&mut connection, &location()).is_ok().then_some(connection)
        })
    };
}

fn location() -> Location {
    let path = |name: &str| name.into();
    Location {
        database: path("locks.db"),
        log: path("locks.db-wal"),
        shared_memory: path("locks.db-shm"),
        side: path("locks.db.clients"),
        write_lock: path("locks.db.clients/lock"),
    }
}

/// Reads a record and, if it can be reckoned with, does everything to it.
pub(in crate::store) fn record(bytes: &[u8], actions: &[Action]) {
    let (Ok(name), location) = (LockName::new("a"), location()) else { return };
    DATABASE.with(|database| {
        let database = database.as_ref();
        let Some(transaction) = database.and_then(|it| it.unchecked_transaction().ok()) else {
            panic!("there is no database in memory");
        };
        for action in actions {
            let source = Source::new(&transaction, &location, &name);
            let Ok(mut record) = record::decode(&source, bytes) else { return };
            let _ = model::step(&mut record, NOW, RULES, action);
            if source.check().is_ok() {
                drop(record::encode(&mut record));
            }
        }
    });
}
