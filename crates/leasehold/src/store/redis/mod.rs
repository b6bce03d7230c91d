//! Redis or Valkey, one primary: one hash per lock, one script per operation.

#[doc(hidden)]
pub mod key;
#[doc(hidden)]
pub mod reply;
#[doc(hidden)]
pub mod script;
#[doc(hidden)]
pub mod wire;
