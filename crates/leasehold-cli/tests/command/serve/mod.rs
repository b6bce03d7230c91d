//! `leasehold serve`: its interface, its page, who is let in, and what it costs the store.

mod budget;
mod described;
mod events;
mod http;
mod metrics;
mod safety;
mod served;
