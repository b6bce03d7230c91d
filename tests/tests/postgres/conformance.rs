//! A PostgreSQL database does what every store must do: directly, with one session, and through a
//! pooler in transaction mode.

use leasehold::store;
use leasehold_testkit::{Subject, conformance, must};

/// A store, and what it needs; the memory store where there is no server.
async fn subject(url: String, needs: impl Send + Sync + 'static) -> Subject {
    Subject::real(must(store::Postgres::connect(&url).await), needs)
}

mod direct {
    use super::*;

    async fn make() -> Subject {
        match crate::server() {
            Some(server) => subject(server.url(), server).await,
            None => Subject::memory(),
        }
    }

    conformance!(together make());
}

mod with_one_session {
    use super::*;

    async fn make() -> Subject {
        match crate::server() {
            Some(server) => subject(format!("{}&connections=1", server.url()), server).await,
            None => Subject::memory(),
        }
    }

    conformance!(together make());
}

mod through_a_pooler {
    use super::*;

    /// Four sessions with the server, and sixteen of the store with the pooler, which waiters ask.
    async fn make() -> Subject {
        match crate::pooled(4) {
            Some(servers) => {
                let url = format!("{}&connections=16&wake=poll", servers.1.url());
                subject(url, servers).await
            }
            None => Subject::memory(),
        }
    }

    conformance!(together make());
}
