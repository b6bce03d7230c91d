//! Every store that comes with leasehold does what every store must do.

use leasehold::store::File;
use leasehold_testkit::{Subject, conformance, must};

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
