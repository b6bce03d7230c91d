//! The measurements of each peer: the rows of the tables.

use std::time::Duration;

/// How long each peer is measured in each round of a row.
pub(super) const TURN: Duration = Duration::from_secs(4);

/// The names that all tasks request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// Each task has a separate name.
    Alone,
    /// All tasks have the same name.
    Hot,
}

/// One way to ask for locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) want: Want,
    pub(super) processes: usize,
    pub(super) tasks: usize,
}

pub(super) const ROWS: [Row; 7] = [
    Row { want: Want::Alone, processes: 1, tasks: 1 },
    Row { want: Want::Alone, processes: 1, tasks: 64 },
    Row { want: Want::Alone, processes: 1, tasks: 1024 },
    Row { want: Want::Hot, processes: 1, tasks: 16 },
    Row { want: Want::Hot, processes: 1, tasks: 128 },
    Row { want: Want::Hot, processes: 4, tasks: 16 },
    Row { want: Want::Hot, processes: 32, tasks: 1 },
];

impl Row {
    pub(super) fn title(self) -> String {
        let Self { want, processes, tasks } = self;
        match want {
            Want::Alone => format!("{tasks} tasks of one process, each on a separate name"),
            Want::Hot => format!("one hot name, {processes} processes × {tasks} tasks"),
        }
    }
}
