//! `leasehold serve`: its interface, its page, who may use it, and its cost for the store.

mod answers;
mod browser;
mod http;
mod metrics;
mod outages;
mod page;
mod pictures;
mod safety;
pub(crate) mod served;
