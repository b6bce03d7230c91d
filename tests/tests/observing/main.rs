//! What calls and leases report: to the metrics, and as spans.

mod calls;
mod dropping;
mod leases;
mod scene;
mod several;
mod spans;
mod store;
