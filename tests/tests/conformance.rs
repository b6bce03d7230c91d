//! Every store that comes with leasehold does what every store must do.

use leasehold::store::{File, Redis};
use leasehold_testkit::{LeastPrivilege, RedisServer, Subject, conformance, must, options_of};

mod memory {
    use super::*;

    async fn make() -> Subject {
        Subject::memory()
    }

    conformance!(make());
}

mod file {
    use super::*;

    async fn make() -> Subject {
        let directory = must(tempfile::tempdir());
        let store = must(File::open(directory.path().join("locks.db")));
        Subject::real(store, directory)
    }

    conformance!(make());
}

mod redis {
    use super::*;

    /// A server whose user has the rights of the documentation's holder and operator, no more.
    async fn make(rights: &str, options: &str) -> Subject {
        let rights = format!("{rights} {}", Redis::OPERATOR_RIGHTS);
        let server =
            must(RedisServer::options().user(&format!("both on >secret {rights}")).start());
        let url = format!("{}&{options}", server.patient_url_as("both", "secret"));
        let store = must(Redis::open(options_of(&url)).await);
        Subject::real(store, LeastPrivilege(server))
    }

    mod native {
        use super::*;

        conformance!(make(Redis::HOLDER_RIGHTS, ""));
    }

    mod plain {
        use super::*;

        conformance!(make(Redis::PLAIN_RIGHTS, "layout=plain"));
    }
}
