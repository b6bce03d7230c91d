//! What befalls a PostgreSQL server, or the pooler before it.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{PgBouncer, Postgres, must};

use crate::fault::Fault;

/// Lets a fault befall the pooler if there is one, else the server, and heals it.
pub(super) fn befall(
    fault: Fault,
    (server, pooler): (&mut Postgres, Option<&mut PgBouncer>),
    span: Duration,
) {
    match (fault, pooler) {
        (Fault::Kill, Some(pooler)) => must(pooler.restart()),
        (Fault::Kill, None) => {
            must(server.kill9());
            thread::sleep(span);
            must(server.restart());
        }
        (Fault::Hang, Some(pooler)) => {
            must(pooler.command("PAUSE"));
            thread::sleep(span);
            must(pooler.command("RESUME"));
        }
        (Fault::Hang, None) => {
            must(server.stop());
            thread::sleep(span);
            must(server.cont());
        }
        (Fault::SubscribersCut, _) => end(server, "query LIKE 'LISTEN lh\\_%'"),
        _ => end(server, "application_name = 'leasehold'"),
    }
}

/// Ends sessions with the server.
fn end(server: &Postgres, which: &str) {
    let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {which}");
    must(server.query(&sql));
}
