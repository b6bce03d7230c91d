//! Every store that comes with leasehold does what every store must do.

use leasehold::store::{File, FileOptions, Memory, Redis};
use leasehold::time::FakeClock;
use leasehold_testkit::{LeastPrivilege, RedisServer, Subject, conformance, must};

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

mod memory_with_a_history {
    use super::*;

    async fn make() -> Subject {
        let clock = FakeClock::new();
        Subject::fake(Memory::with_clock(clock.clone()).history(3), clock)
    }

    conformance!(history make());
}

mod file_with_a_history {
    use super::*;

    async fn make() -> Subject {
        let directory = must(tempfile::tempdir());
        let options = FileOptions::new(directory.path().join("locks.db")).history(3);
        Subject::real(must(File::open(options)), directory)
    }

    conformance!(history make());
}

mod redis {
    use super::*;

    /// A server whose user has the rights of the documentation's holder and operator, no more.
    async fn make(rights: &str, options: &str) -> Subject {
        let rights = format!("{rights} {}", Redis::OPERATOR_RIGHTS);
        let server =
            must(RedisServer::options().user(&format!("both on >secret {rights}")).start());
        // Older servers do not know the command, nor a right to it.
        let _unknown = server.command::<()>("ACL SETUSER both +delifeq");
        let url = format!("{}&{options}", server.patient_url_as("both", "secret"));
        let store = must(Redis::connect(&url).await);
        Subject::real(store, LeastPrivilege(server))
    }

    mod native {
        use super::*;

        conformance!(make(Redis::HOLDER_RIGHTS, ""));
    }

    mod native_with_a_history {
        use super::*;

        conformance!(history make(Redis::HOLDER_RIGHTS, "history=3"));
    }

    mod plain {
        use super::*;

        conformance!(make(Redis::PLAIN_RIGHTS, "layout=plain"));
    }
}
