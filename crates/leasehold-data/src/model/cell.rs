//! One value that a holder of a lock, or a caller that knows its version, may replace.

use leasehold::FencingToken;
use leasehold::fence::{Fence, Fences};

/// The largest value of a cell: 64 KiB. A cell is for a balance or a document, not for a file.
pub const MAX_VALUE_BYTES: usize = 64 << 10;

/// The state of a cell between two steps. Version 0 means never written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// Grows by one with every write.
    pub version: u64,
    /// The value that was written last.
    pub value: Vec<u8>,
    /// The highest token that was seen of each lock.
    pub fences: Fences,
}

/// A step on a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellAction {
    /// Reads the value. With a fence, installs the token first: an overtaken holder can no longer
    /// change the value that is read.
    Read,
    /// Replaces the value.
    Write {
        /// The version that the cell must have; `None` for any version.
        version: Option<u64>,
        /// The new value.
        value: Vec<u8>,
    },
}

/// The outcome of a step on a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CellReply {
    /// Another version was found; nothing was written.
    Changed {
        /// The version that was found.
        version: u64,
    },
    /// The content of the cell.
    Found {
        /// The version of the cell, 0 if it was never written.
        version: u64,
        /// The value of the cell.
        value: Vec<u8>,
    },
    /// The cell was written.
    Written {
        /// The new version.
        version: u64,
    },
}

/// Does one step.
///
/// # Errors
///
/// If a newer token of the lock of `fence` was seen: that token is the error, and nothing was done.
pub fn step(
    cell: &mut Cell,
    fence: Option<&Fence>,
    action: &CellAction,
) -> Result<CellReply, FencingToken> {
    if let Some(Err(newest)) = fence.map(|fence| cell.fences.install(fence)) {
        return Err(newest);
    }
    Ok(match action {
        CellAction::Read => CellReply::Found { version: cell.version, value: cell.value.clone() },
        CellAction::Write { version: Some(version), .. } if *version != cell.version => {
            CellReply::Changed { version: cell.version }
        }
        CellAction::Write { value, .. } => {
            cell.version += 1;
            cell.value.clone_from(value);
            CellReply::Written { version: cell.version }
        }
    })
}
