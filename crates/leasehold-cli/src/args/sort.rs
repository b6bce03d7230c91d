//! The orders of a list of locks: the words of `ls`, and the columns of `top`.

use clap::ValueEnum;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// The longest wait first, then the oldest hold: what may be stuck.
    #[default]
    Longest,
    /// The longest queue first.
    Waiting,
    /// The oldest hold first.
    Held,
    /// The hold that would end first, if nobody renewed it.
    Left,
    /// Most entries per second first: known only while watching.
    Entries,
    Name,
}

impl Sort {
    const ALL: [Self; 6] =
        [Self::Longest, Self::Waiting, Self::Held, Self::Left, Self::Entries, Self::Name];

    /// The next order; the first one follows the last.
    pub(crate) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or_default();
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The title of the column that the list is sorted by.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Longest => "LONGEST",
            Self::Waiting => "WAITING",
            Self::Held => "HELD",
            Self::Left => "LEFT",
            Self::Entries => "ENTRIES/S",
            Self::Name => "NAME",
        }
    }
}
