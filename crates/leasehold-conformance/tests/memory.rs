//! The store in memory does what every store must do: wherever this crate compiles, also where
//! there is neither a server nor a file store.

use leasehold_conformance::{Subject, conformance};

async fn make() -> Subject {
    Subject::memory()
}

conformance!(make());
