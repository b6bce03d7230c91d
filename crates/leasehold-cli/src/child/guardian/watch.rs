//! Watches whether the guardian does its work: if the guardian is stopped or hangs, the command
//! must not outlive the lease.

use std::time::Duration;

use leasehold::time::Instant;

use super::timing::{AFTER_KILL, head_start};
use crate::args::OnLost;

/// How long the guardian may take to answer while the lease is valid: 2 s, for a busy machine.
const LONGEST_SILENCE: Duration = Duration::from_secs(2);

/// The same limit once the lease is not valid: 100 ms. A process that is not stopped usually
/// answers faster.
const SHORTEST_SILENCE: Duration = Duration::from_millis(100);

/// The advice on what leasehold should do about its guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// The command must be ended now: continue the guardian, in case it was stopped.
    Wake,
    /// The guardian has not begun to end the command: end it in its place.
    Replace,
    /// The guardian has begun to end the command and does not finish: end it in its place.
    Finish,
}

#[derive(Clone, Copy, Debug)]
enum Expectation {
    /// The guardian has nothing to do.
    Idle,
    /// The guardian should report by `answer_by` that it ends the command.
    Asked { answer_by: Instant },
    /// By `done_by` the guardian should have ended the command, or have reported that it cannot.
    Ending { done_by: Instant },
    /// The guardian has reported that it cannot end the command.
    Hopeless,
}

/// The watch on a guardian: what it should do, and by when.
#[derive(Debug)]
pub(crate) struct Watch {
    kill_after: Duration,
    on_lost: OnLost,
    valid_until: Instant,
    state: Expectation,
}

impl Watch {
    /// A watch for a lease that is valid until this instant.
    pub(crate) fn new(on_lost: OnLost, kill_after: Duration, valid_until: Instant) -> Self {
        Self { kill_after, on_lost, valid_until, state: Expectation::Idle }
    }

    /// Records that the lease was renewed.
    pub(crate) fn renewed(&mut self, valid_until: Instant) {
        self.valid_until = self.valid_until.max(valid_until);
        if let Expectation::Asked { .. } = self.state {
            self.state = Expectation::Idle;
        }
    }

    /// Records that the guardian was asked to end the command.
    pub(crate) fn asked(&mut self, now: Instant) {
        if let (Expectation::Idle, OnLost::Kill | OnLost::Term) = (self.state, self.on_lost) {
            let kill_by = self.valid_until.saturating_sub(head_start(self.kill_after));
            let patient = (now + LONGEST_SILENCE).min(kill_by);
            self.state = Expectation::Asked { answer_by: patient.max(now + SHORTEST_SILENCE) };
        }
    }

    /// Records that the guardian has begun to end the command.
    pub(crate) fn ending(&mut self, now: Instant) {
        let done_by = now + self.kill_after + AFTER_KILL + LONGEST_SILENCE;
        self.state = Expectation::Ending { done_by };
    }

    /// Records that the guardian cannot end the command.
    pub(crate) fn hopeless(&mut self) {
        self.state = Expectation::Hopeless;
    }

    /// When [`Self::check`] is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        match (self.state, self.on_lost) {
            (Expectation::Idle, OnLost::Ignore) | (Expectation::Hopeless, _) => None,
            (Expectation::Idle, OnLost::Kill) => Some(self.valid_until),
            (Expectation::Idle, OnLost::Term) => {
                Some(self.valid_until.saturating_sub(self.kill_after))
            }
            (Expectation::Asked { answer_by: by } | Expectation::Ending { done_by: by }, _) => {
                Some(by)
            }
        }
    }

    /// Returns the advice when a check is due.
    pub(crate) fn check(&mut self, now: Instant) -> Advice {
        match self.state {
            Expectation::Idle => {
                self.asked(now);
                Advice::Wake
            }
            Expectation::Asked { .. } => Advice::Replace,
            Expectation::Ending { .. } | Expectation::Hopeless => Advice::Finish,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(ms))
    }

    fn watch(on_lost: OnLost) -> Watch {
        Watch::new(on_lost, Duration::from_secs(5), at(30_000))
    }

    #[test]
    fn a_guardian_that_answers_is_left_alone_until_it_should_be_done() {
        let mut watch = watch(OnLost::Term);
        assert_eq!(watch.due(), Some(at(25_000)));
        assert_eq!(watch.check(at(25_000)), Advice::Wake);
        assert_eq!(watch.due(), Some(at(27_000)));
        watch.ending(at(25_001));
        assert_eq!(watch.due(), Some(at(34_001)));
        assert_eq!(watch.check(at(34_001)), Advice::Finish);
        watch.hopeless();
        assert_eq!(watch.due(), None);
    }

    #[test]
    fn a_guardian_that_does_not_answer_is_not_waited_for_beyond_the_lease() {
        let mut late = watch(OnLost::Term);
        late.asked(at(29_000));
        assert_eq!(late.due(), Some(at(29_750)));
        assert_eq!(late.check(at(29_750)), Advice::Replace);
        let mut revoked = watch(OnLost::Kill);
        revoked.asked(at(1000));
        assert_eq!(revoked.due(), Some(at(3000)));
        let mut over = watch(OnLost::Kill);
        assert_eq!((over.due(), over.check(at(30_000))), (Some(at(30_000)), Advice::Wake));
        assert_eq!(over.due(), Some(at(30_100)));
    }

    #[test]
    fn a_renewal_in_time_takes_the_question_back() {
        let mut watch = watch(OnLost::Term);
        watch.check(at(25_000));
        watch.renewed(at(50_000));
        assert_eq!(watch.due(), Some(at(45_000)));
        watch.renewed(at(40_000));
        assert_eq!(watch.due(), Some(at(45_000)), "none moves it back");
    }

    #[test]
    fn nothing_is_expected_of_a_guardian_that_shall_ignore_the_loss() {
        let mut watch = watch(OnLost::Ignore);
        watch.asked(at(1000));
        assert_eq!(watch.due(), None);
    }
}
