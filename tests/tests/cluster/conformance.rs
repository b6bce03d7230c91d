//! A cluster does what every store must do, for a user who may do no more than the documentation
//! says.

use leasehold::store::{Redis, Store};
use leasehold_testkit::{Cluster, LeastPrivilege, Subject, conformance, must, options_of};

use crate::with_least_rights;

/// A cluster, and its URL with limits that a busy machine does not reach.
fn cluster() -> (Cluster, String) {
    let cluster = must(Cluster::start_with(&with_least_rights(), 0));
    let url = format!("{}?timeout=20s", cluster.url_as("both", "secret"));
    (cluster, url)
}

async fn make() -> Subject {
    let (cluster, url) = cluster();
    Subject::real(must(Redis::open(options_of(&url)).await), LeastPrivilege(cluster))
}

conformance!(together make());

mod quarantined {
    use super::*;

    async fn make() -> Subject {
        let (cluster, url) = cluster();
        let store = must(Redis::open(options_of(&format!("{url}&quarantine=1h"))).await);
        must(store.end_quarantine().await);
        Subject::real(store, LeastPrivilege(cluster))
    }

    conformance!(together make());
}
