//! What calls and leases report: to the metrics, and as spans.

mod calls;
mod gauges;
mod leases;
mod scene;
mod several;
mod spans;
mod store;
