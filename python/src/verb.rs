//! A verb: a future that has not begun. A caller drives it here, or a thread drives it
//! (`completions`).

use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold::blocking::wait;
use pyo3::prelude::*;

use crate::done::Done;
use crate::errors::Failure;
use crate::process::{self, State, Wait, lock};

/// How often a waiting thread checks for signals and for the end of the program: every 50 ms.
const TICK: Duration = Duration::from_millis(50);

/// The future of a verb.
pub(crate) type Doing = Pin<Box<dyn Future<Output = Result<Done, Failure>> + Send>>;

/// A verb that has not begun.
#[pyclass(frozen, module = "leasehold._core")]
pub(crate) struct Verb {
    doing: Mutex<Option<Doing>>,
    /// Whether the verb continues when its caller no longer waits.
    pub(crate) goes_on: bool,
    /// Whether an event loop begins the verb itself.
    pub(crate) at_once: bool,
}

/// The reason why driving a verb was interrupted or ended.
enum Turn {
    Ended(Result<Done, Failure>),
    Tick(Doing),
}

impl Verb {
    pub(crate) fn new(doing: impl Future<Output = Result<Done, Failure>> + Send + 'static) -> Self {
        let doing: Doing = Box::pin(doing);
        Self { doing: Mutex::new(Some(doing)), goes_on: false, at_once: false }
    }

    /// An event loop begins the verb itself, if the client `waits_for_no_disk`. So a lease that a
    /// client passes on to its next caller is let go at once.
    pub(crate) fn at_once(self, at_once: bool) -> Self {
        Self { at_once, ..self }
    }

    pub(crate) fn going_on(self) -> Self {
        Self { goes_on: true, ..self }
    }

    /// Takes the future, which works only once.
    pub(crate) fn take(&self) -> Result<Doing, Failure> {
        lock(&self.doing).take().ok_or(Failure::Misuse("a verb is waited for once"))
    }

    /// Drives the future until it ends. If `looks`, also returns whenever it is time to check for
    /// signals.
    fn drive(mut doing: Doing, state: &State, looks: bool) -> Turn {
        loop {
            let turn = async {
                match select(&mut doing, std::pin::pin!(tokio::time::sleep(TICK))).await {
                    Either::Left((ended, _)) => Ok::<_, Failure>(Some(ended)),
                    Either::Right(_) => Ok(None),
                }
            };
            let ended = match wait(turn) {
                // The future has ended, so nothing is left to give up.
                Ok(Some(ended)) => return Turn::Ended(ended),
                Ok(None) if state.ends() => Failure::Exit,
                Ok(None) if looks => return Turn::Tick(doing),
                Ok(None) => continue,
                Err(error) => error,
            };
            give_up(doing);
            return Turn::Ended(Err(ended));
        }
    }
}

/// Drops the future inside the runtime of its connections.
fn give_up(doing: Doing) {
    let dropping = async {
        drop(doing);
        Ok::<_, Failure>(())
    };
    // Without a runtime the future cannot have begun anything.
    drop(wait(dropping));
}

#[pymethods]
impl Verb {
    /// Drives the verb to its end in this thread, without the GIL. The main thread handles signals
    /// meanwhile.
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = process::begin(py)?;
        let mut doing = self.take()?;
        let _wait = Wait::begin(state)?;
        let mut looks = None;
        let ended = loop {
            match py.detach(|| Self::drive(doing, state, looks.unwrap_or(true))) {
                Turn::Ended(ended) => break ended,
                Turn::Tick(later) => match look(py, &mut looks) {
                    Ok(()) => doing = later,
                    Err(raised) => {
                        py.detach(|| give_up(later));
                        return Err(raised);
                    }
                },
            }
        };
        ended?.into_python(py)
    }
}

/// Handles pending signals, and records whether this is the main thread, in which Python runs
/// signal handlers.
///
/// Any call into Python may run a handler, whose exception ends the wait.
fn look(py: Python<'_>, looks: &mut Option<bool>) -> PyResult<()> {
    if looks.is_none() {
        let threading = py.import("threading")?;
        let main = threading.call_method0("main_thread")?.getattr("ident")?;
        *looks = Some(main.eq(threading.call_method0("get_ident")?)?);
    }
    py.check_signals()
}
