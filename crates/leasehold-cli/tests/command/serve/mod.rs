//! `leasehold serve`: its interface, its page, who may use it, and its cost for the store.

mod browser;
mod budget;
mod deadlocks;
mod described;
mod events;
mod http;
mod metrics;
mod page;
mod pictures;
mod safety;
pub(crate) mod served;
