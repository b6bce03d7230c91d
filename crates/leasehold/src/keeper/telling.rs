//! What was told of a lease: that it was granted, and then once that it has ended.
//!
//! Its caller tells of the grant and the keeper may find the end, at the same moment and in another
//! thread. Whoever counts what is held must not hear of the end first, nor of a grant that never
//! ends.

use leasehold_core::Mode;

use crate::lost::End;
use crate::mutex::Mutex;

/// How far a lease was told of.
#[derive(Debug, Default)]
pub(super) struct Telling(Mutex<Told>);

#[derive(Debug, Default)]
enum Told {
    #[default]
    Nothing,
    /// Nothing yet, and it has ended: whoever tells of the grant tells of that, too.
    Ending(End),
    Held(Mode),
    Ended,
}

impl Telling {
    /// It was told that the lease was granted. Gives its end if that has come before, and is to be
    /// told now.
    pub(super) fn granted(&self, mode: Mode) -> Option<End> {
        let mut told = self.0.lock();
        match *told {
            Told::Nothing => *told = Told::Held(mode),
            Told::Ending(end) => {
                *told = Told::Ended;
                return Some(end);
            }
            Told::Held(_) | Told::Ended => {}
        }
        None
    }

    /// The lease is held as something else. Gives as what it was before, if that is to be told.
    pub(super) fn changed(&self, mode: Mode) -> Option<Mode> {
        match &mut *self.0.lock() {
            Told::Held(held) if *held != mode => Some(std::mem::replace(held, mode)),
            Told::Nothing | Told::Ending(_) | Told::Held(_) | Told::Ended => None,
        }
    }

    /// The lease has ended. Gives as what it was held, if its end is to be told now.
    pub(super) fn ended(&self, end: End) -> Option<Mode> {
        let mut told = self.0.lock();
        match *told {
            Told::Nothing => *told = Told::Ending(end),
            Told::Held(mode) => {
                *told = Told::Ended;
                return Some(mode);
            }
            Told::Ending(_) | Told::Ended => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::LossReason;

    use super::*;

    #[test]
    fn an_end_that_is_found_before_the_grant_was_told_is_told_after_it_and_once() {
        let telling = Telling::default();
        assert_eq!(telling.ended(End::Lost(LossReason::Revoked)), None);
        assert_eq!(telling.granted(Mode::Exclusive), Some(End::Lost(LossReason::Revoked)));
        assert_eq!(telling.ended(End::Released), None);
        assert_eq!(telling.changed(Mode::Shared), None);
    }

    #[test]
    fn what_ends_is_what_was_told_last_and_nothing_changes_after_it() {
        let telling = Telling::default();
        assert_eq!(telling.granted(Mode::Shared), None);
        assert_eq!(telling.changed(Mode::Shared), None, "it is that already");
        assert_eq!(telling.changed(Mode::Exclusive), Some(Mode::Shared));
        assert_eq!(telling.ended(End::Released), Some(Mode::Exclusive));
        assert_eq!(telling.changed(Mode::Shared), None);
        assert_eq!(telling.ended(End::Released), None);
    }
}
