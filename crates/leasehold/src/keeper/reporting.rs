//! What was reported of a lease: that it was granted, and then once that it has ended.
//!
//! Its caller reports the grant and the keeper may find the end, at the same moment and in another
//! thread. Whoever counts what is held must not hear of the end first, nor of a grant that never
//! ends.

use leasehold_core::Mode;

use crate::lost::End;
use crate::mutex::Mutex;

/// How far a lease was reported.
#[derive(Debug, Default)]
pub(super) struct Reporting(Mutex<Stage>);

#[derive(Debug, Default)]
enum Stage {
    #[default]
    Nothing,
    /// Nothing yet, and it has ended: whoever reports the grant reports that, too.
    Ending(End),
    Held(Mode),
    Ended,
}

impl Reporting {
    /// The grant was reported. Gives the end of the lease if that has come before, and is to be
    /// reported now.
    pub(super) fn granted(&self, mode: Mode) -> Option<End> {
        let mut stage = self.0.lock();
        match *stage {
            Stage::Nothing => *stage = Stage::Held(mode),
            Stage::Ending(end) => {
                *stage = Stage::Ended;
                return Some(end);
            }
            Stage::Held(_) | Stage::Ended => {}
        }
        None
    }

    /// The lease is held as something else. Gives as what it was before, if that is to be reported.
    pub(super) fn changed(&self, mode: Mode) -> Option<Mode> {
        match &mut *self.0.lock() {
            Stage::Held(held) if *held != mode => Some(std::mem::replace(held, mode)),
            Stage::Nothing | Stage::Ending(_) | Stage::Held(_) | Stage::Ended => None,
        }
    }

    /// The lease has ended. Gives as what it was held, if its end is to be reported now.
    pub(super) fn ended(&self, end: End) -> Option<Mode> {
        let mut stage = self.0.lock();
        match *stage {
            Stage::Nothing => *stage = Stage::Ending(end),
            Stage::Held(mode) => {
                *stage = Stage::Ended;
                return Some(mode);
            }
            Stage::Ending(_) | Stage::Ended => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::LossReason;

    use super::*;

    #[test]
    fn an_end_that_is_found_before_the_grant_was_reported_is_reported_after_it_and_once() {
        let reporting = Reporting::default();
        assert_eq!(reporting.ended(End::Lost(LossReason::Revoked)), None);
        assert_eq!(reporting.granted(Mode::Exclusive), Some(End::Lost(LossReason::Revoked)));
        assert_eq!(reporting.ended(End::Released), None);
        assert_eq!(reporting.changed(Mode::Shared), None);
    }

    #[test]
    fn what_ends_is_what_was_reported_last_and_nothing_changes_after_it() {
        let reporting = Reporting::default();
        assert_eq!(reporting.granted(Mode::Shared), None);
        assert_eq!(reporting.changed(Mode::Shared), None, "it is that already");
        assert_eq!(reporting.changed(Mode::Exclusive), Some(Mode::Shared));
        assert_eq!(reporting.ended(End::Released), Some(Mode::Exclusive));
        assert_eq!(reporting.changed(Mode::Shared), None);
        assert_eq!(reporting.ended(End::Released), None);
    }
}
