//! What is told of calls and leases: to the metrics, and as spans.

mod calls;
mod gauges;
mod leases;
mod scene;
mod several;
mod spans;
mod store;
