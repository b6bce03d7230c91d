//! A quorum passes the tests of every store, or says that it cannot do something.

use leasehold::store::{Memory, Quorum, Store};
use leasehold::time::FakeClock;
use leasehold_testkit::{Subject, conformance, must};

use crate::fleet::Fleet;

/// Three stores in memory, on one clock that the test moves.
mod memory {
    use super::*;

    async fn make() -> Subject {
        let clock = FakeClock::new();
        let node = || Box::new(Memory::with_clock(clock.clone())) as Box<dyn Store>;
        let nodes = (0..3).map(|_| node()).collect();
        Subject::fake(must(Quorum::with_clock(nodes, clock.clone())), clock)
    }

    conformance!(make());
}

mod three_servers {
    use super::*;

    async fn make() -> Subject {
        let fleet = Fleet::start(3);
        Subject::real(fleet.patient_store().await, fleet)
    }

    conformance!(together make());
}

mod five_servers {
    use super::*;

    async fn make() -> Subject {
        let fleet = Fleet::start(5);
        Subject::real(fleet.patient_store().await, fleet)
    }

    conformance!(together make());
}
