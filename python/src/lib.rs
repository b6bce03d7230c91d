//! The native part of the Python package: a few types that Python code wraps. A *verb* is a future
//! that has not begun. There are two ways to wait for a verb: its caller drives it (`verb`), or a
//! thread drives it and wakes an event loop (`completions`).
//!
//! No Rust thread takes the GIL: results and events go into queues, and Python threads read the
//! queues.
#![forbid(unsafe_code)]

#[cfg(not(unix))]
compile_error!("leasehold needs Linux or another Unix: use WSL");

mod admin;
mod client;
mod completions;
mod done;
mod election;
mod errors;
mod events;
mod fence;
mod guard;
mod lock;
mod options;
mod process;
mod queue;
mod slot;
mod told;
mod values;
mod verb;
mod wake;
mod watches;

use pyo3::pymodule;

#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::client::{Memory, NativeClient};
    #[pymodule_export]
    use crate::completions::Completions;
    #[pymodule_export]
    use crate::election::{NativeElection, NativeObservation};
    #[pymodule_export]
    use crate::fence::{check_fence, from_header, header, parse_lease, sql, to_header};
    #[pymodule_export]
    use crate::guard::NativeGuard;
    #[pymodule_export]
    use crate::lock::NativeLock;
    #[pymodule_export]
    use crate::options::{Options, version};
    #[pymodule_export]
    use crate::process::end;
    #[pymodule_export]
    use crate::told::{end_told, next_told, told_descriptor};
    #[pymodule_export]
    use crate::verb::Verb;
}
