//! The store does what every store must do.

use leasehold::time::FakeClock;
use leasehold_conformance::{Subject, conformance};
use own_store::OwnStore;

/// On a clock that stands still until a case moves it, each case by itself.
mod on_a_clock_of_the_test {
    use super::*;

    async fn make() -> Subject {
        let clock = FakeClock::new();
        Subject::fake(OwnStore::with_clock(clock.clone()), clock)
    }

    conformance!(make());
}

/// In real time, all cases on one store.
mod in_real_time {
    use super::*;

    async fn make() -> Subject {
        Subject::real(OwnStore::default(), ())
    }

    conformance!(together make());
}
