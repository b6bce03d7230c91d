//! The checks after each step of a history.

use super::*;

impl History {
    pub(super) fn check_promises(&self) {
        for (id, promise) in &self.promises {
            if promise.until_us <= self.elapsed_us {
                continue;
            }
            let hold = self.bench.hold(*id);
            let token = hold.map(|hold| FencingToken::from_micros(hold.token_us));
            assert_eq!(token, Some(promise.token), "{id} was promised that it holds");
        }
        for hold in &self.bench.record.holds {
            let is_cooldown = hold.state == HoldState::Cooldown;
            assert!(is_cooldown || !self.over.contains(&hold.id), "{} has ended", hold.id);
        }
        for waiting in self.bench.record.queue.values() {
            assert!(!self.over.contains(&waiting.id), "{} has ended", waiting.id);
        }
    }

    /// Checks new holds: they have new tokens, one per attempt, and waiters are served in order,
    /// the living before the dead.
    pub(super) fn check_order(&mut self, before: &Record) {
        let after = &self.bench.record;
        assert!(after.last_token_us >= before.last_token_us);
        let mut before_and_after =
            before.queue.iter().filter(|(_, w)| after.sequences.contains_key(&w.id));
        let first_left = before_and_after.next().map(|(sequence, _)| *sequence);
        for hold in &after.holds {
            if before.holds.iter().any(|old| old.token_us == hold.token_us) {
                continue;
            }
            assert!(hold.token_us > before.last_token_us, "a token is never given out again");
            let was_holding = before.slots.contains_key(&hold.id);
            let had_token = self.tokens.values().any(|id| *id == hold.id);
            assert_eq!(was_holding, had_token, "{}: at most one grant", hold.id);
            assert!(self.tokens.insert(hold.token_us, hold.id).is_none());
            match before.sequences.get(&hold.id) {
                Some(own) => assert!(first_left.is_none_or(|left| left > *own), "out of order"),
                None => {
                    let is_next = after.queue.is_empty() || self.adopters.contains(&hold.id);
                    assert!(was_holding || is_next, "{} jumped in", hold.id);
                }
            }
        }
        for waiting in before.queue.values() {
            let is_left = after.sequences.contains_key(&waiting.id);
            let is_granted = after.slots.contains_key(&waiting.id);
            let is_dead = before.clients[&waiting.id.client].last_us + micros(DEAD_AFTER)
                <= self.bench.now_us;
            let is_over = self.over.contains(&waiting.id);
            assert!(is_left || is_granted || is_dead || is_over, "{} was skipped", waiting.id);
        }
    }

    /// Checks the last holder: it held before the step and does not any more, or it has not
    /// changed.
    pub(super) fn check_last(&self, before: &Record) {
        let after = &self.bench.record;
        if after.last == before.last {
            return;
        }
        let last = after.last.as_ref().expect("it is not forgotten");
        let hold = before.holds.iter().find(|hold| hold.id == last.id).expect("it has held");
        let holds =
            after.holds.iter().any(|hold| hold.id == last.id && hold.state != HoldState::Cooldown);
        assert!(!holds, "{last:?}");
        assert_eq!((&last.info, last.ended_us), (&hold.info, self.bench.now_us));
        assert!(hold.state != HoldState::Revoked, "{last:?}");
    }

    /// Checks that nothing is granted beyond the capacity, which all holders have asked for.
    pub(super) fn check_capacity(&self) {
        let record = &self.bench.record;
        assert!(record.used <= u64::from(record.capacity), "more was granted than there is");
        let of_attempt = |hold: &Hold| self.attempts.iter().find(|attempt| attempt.id == hold.id);
        for attempt in record.holds.iter().filter_map(of_attempt) {
            assert_eq!(attempt.mode.capacity(), record.capacity, "{} has another's", attempt.id);
        }
    }

    /// Checks that a request that fits is granted in the same step, and not by a later poll.
    pub(super) fn check_handed_on(&self) {
        let record = &self.bench.record;
        if let Some(head) = record.queue.values().next()
            && !self.bench.more
        {
            assert!(
                !record.fits(head.weight, head.capacity),
                "{} was not handed the lock",
                head.id
            );
        }
    }

    pub(super) fn check_only_time_has_acted(&self, before: &Record, on: HolderId) {
        assert_eq!(self.bench.record, self.by_time(before, on));
    }

    /// The record after the effects of time alone, as seen by this attempt. If the clock went back,
    /// a deadline is reduced when its hold is read.
    fn by_time(&self, before: &Record, id: HolderId) -> Record {
        let mut record = before.clone();
        let token = FencingToken::from_micros(0); // nobody has this token
        let nothing = Action::Revoke { id, token, force: false };
        step(&mut record, self.bench.now(), self.bench.rules, &nothing);
        record
    }

    pub(super) fn check_idempotent(&self, action: &Action, reply: &Reply) {
        let mut again = self.bench.record.clone();
        let second = step(&mut again, self.bench.now(), self.bench.rules, action);
        if let Action::Cancel { .. } = action {
            // A second cancel finds nothing, which leaves a tombstone.
            again.tombstones.clone_from(&self.bench.record.tombstones);
            again.collect_at_us = self.bench.record.collect_at_us;
        }
        assert_eq!(again, self.bench.record, "a copy of {action:?} changes nothing more");
        match (reply, second.reply) {
            (Reply::Granted(first), Reply::Granted(second)) => {
                let same = (first.token, first.deadline_us);
                assert_eq!(same, (second.token, second.deadline_us));
            }
            // The newest token may have changed since.
            (Reply::NotHeld { .. }, Reply::NotHeld { .. }) => (),
            (Reply::Cancelled(_) | Reply::Released | Reply::Revoked(_), _) => (),
            (first, second) => assert_eq!(*first, second),
        }
    }
}

/// Whether a step of this kind also grants to the next waiter.
pub(super) fn hands_on(before: &Record, action: &Action, reply: &Reply) -> bool {
    match (action, reply) {
        (Action::Acquire(_), Reply::Busy { .. } | Reply::Granted(_) | Reply::Queued(_)) => true,
        (Action::Acquire(_) | Action::Inspect { .. }, _) => false,
        // A cooldown cannot be released again.
        (Action::Release { id, .. }, Reply::Released) => {
            let hold = before.holds.iter().find(|hold| hold.id == *id);
            hold.is_some_and(|hold| hold.state != HoldState::Cooldown)
        }
        (Action::Release { .. } | Action::Revoke { .. }, _) => true,
        (Action::Cancel { .. } | Action::Describe { .. }, _) => true,
        (Action::Commit { .. } | Action::Poll { .. } | Action::Renew { .. }, _) => true,
        (Action::Adopt(_), reply) => *reply != Reply::Late,
        (Action::Reclaim(_), reply) => !matches!(reply, Reply::Late | Reply::Refused(_)),
    }
}
