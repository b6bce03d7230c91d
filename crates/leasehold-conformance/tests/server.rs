//! The store on a server passes the suite, on a system on which no test can start a server:
//! `LEASEHOLD_CONFORMANCE_STORE` names it. `cargo xtask platforms` runs this.

use leasehold_conformance::{Subject, conformance};

async fn make() -> Subject {
    let Ok(url) = std::env::var("LEASEHOLD_CONFORMANCE_STORE") else {
        panic!("LEASEHOLD_CONFORMANCE_STORE is to name a store, such as redis://127.0.0.1:6379");
    };
    match leasehold::store::connect(&url).await {
        Ok(store) => Subject::real(store, ()),
        Err(error) => panic!("{url}: {error}"),
    }
}

conformance!(make());
