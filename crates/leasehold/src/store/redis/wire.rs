//! The wire format, for leasehold's own tests and its testkit. It is not part of the public API:
//! any release may change it.

pub use super::connection::call::Call;
pub use super::layout::Layout;
pub use super::layout::key;
pub use super::layout::native::Native;
pub use super::layout::plain::Plain;
pub use super::layout::redisson::Redisson;
pub use super::layout::reply::message;
pub use super::layout::script::Script;
