#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod data;
pub mod model;
mod numbers;
mod part;
mod stock;
pub mod store;

pub use self::batch::{BatchLimits, Batcher};
pub use self::data::Data;
pub use self::model::Id;
pub use self::numbers::{Number, Numbers};
pub use self::part::DEFAULT_REMEMBER;
pub use self::stock::{Stock, StockOutcome};
