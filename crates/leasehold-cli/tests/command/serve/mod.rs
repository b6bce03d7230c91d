//! `leasehold serve`: its interface, its page, who is let in, and what it costs the store.

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
