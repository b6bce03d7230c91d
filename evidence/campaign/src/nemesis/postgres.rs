//! Faults of a PostgreSQL server, of the pooler before it, or of a pair of servers.

use std::thread;
use std::time::Duration;

use leasehold_testkit::{PgBouncer, Postgres, PostgresPair, must};

use crate::fault::Fault;

/// Sessions of leasehold, and those of them that listen.
const CLIENTS: &str = "application_name = 'leasehold'";
const LISTENERS: &str = "query LIKE 'LISTEN lh\\_%'";

/// Causes a fault of the pooler if there is one, otherwise of the server, and heals it.
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
        (Fault::SubscribersCut, _) => end(server, LISTENERS),
        _ => end(server, CLIENTS),
    }
}

pub(super) fn befall_pair(fault: Fault, pair: &mut PostgresPair, span: Duration) {
    match fault {
        Fault::KillPrimary => {
            must(pair.fail_over());
            must(pair.heal());
        }
        Fault::PrimaryUnseen => {
            must(pair.leave_behind());
            thread::sleep(span);
            must(pair.heal());
        }
        Fault::Hang => {
            must(pair.standby().stop());
            thread::sleep(span);
            must(pair.standby().cont());
        }
        Fault::SubscribersCut => end(pair.primary(), LISTENERS),
        _ => end(pair.primary(), CLIENTS),
    }
}

/// Ends sessions with the server.
fn end(server: &Postgres, which: &str) {
    let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {which}");
    must(server.query(&sql));
}
