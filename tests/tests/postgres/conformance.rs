//! A PostgreSQL database does what every store must do: directly, and with a single session through
//! a pooler in transaction mode.

use leasehold_testkit::{Subject, conformance};

/// A store, and the objects that it needs; the memory store where there is no server.
async fn subject(url: String, needs: impl Send + Sync + 'static) -> Subject {
    Subject::real(crate::open(&url).await, needs)
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

mod through_a_pooler {
    use super::*;

    /// No message arrives through a pooler, so the server itself is listened to.
    async fn make() -> Subject {
        match crate::pooled(1) {
            Some(servers) => {
                let (url, listen) = (servers.1.url(), crate::direct(&servers.0));
                subject(format!("{url}&connections=4&listen={listen}"), servers).await
            }
            None => Subject::memory(),
        }
    }

    conformance!(together make());
}
