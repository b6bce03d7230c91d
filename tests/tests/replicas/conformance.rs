//! Every store passes the same tests, also if a grant needs acknowledgements before it counts.

use leasehold::store::{Redis, Store};
use leasehold_testkit::{
    LeastPrivilege, RedisServer, Replicated, Subject, conformance, must, options_of,
};

/// So long that a healthy replica always answers in time on a busy machine.
const PATIENT: &str = "timeout=20s";

mod replicated {
    use super::*;

    async fn make() -> Subject {
        let rights = [Redis::HOLDER_RIGHTS, Redis::OPERATOR_RIGHTS, Redis::REPLICAS_RIGHTS];
        let options = RedisServer::options().user(&format!("both on >secret {}", rights.join(" ")));
        let servers = must(Replicated::start_with(options, &[100]));
        let url = format!("{}?replicas=1&{PATIENT}", servers[0].url_as("both", "secret"));
        Subject::real(must(Redis::open(options_of(&url)).await), LeastPrivilege(servers))
    }

    conformance!(together make());
}

mod quarantined {
    use super::*;

    async fn make() -> Subject {
        let server = must(RedisServer::options().holder().start());
        let url = format!("{}?quarantine=1h&{PATIENT}", server.url());
        let store = must(Redis::open(options_of(&url)).await);
        must(store.end_quarantine().await);
        Subject::real(store, server)
    }

    conformance!(together make());
}
