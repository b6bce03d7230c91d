//! What clients do to each other on real stores and servers, and what becomes of it.
#![cfg(test)]

mod bundles;
mod cancelling;
mod contention;
mod deaths;
mod dropping;
mod ending;
mod file_store;
mod first_contact;
mod outage;
mod pages;
mod redis_options;
mod redis_store;
mod trying;
mod unfetched;
mod user_code;
mod waiting;
