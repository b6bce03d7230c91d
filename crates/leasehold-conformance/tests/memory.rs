//! The store in memory passes the suite on every system where this crate compiles, also without a
//! server or a file store.

use leasehold_conformance::{Subject, conformance};

async fn make() -> Subject {
    Subject::memory()
}

conformance!(make());
