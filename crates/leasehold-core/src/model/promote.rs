//! The only place where holds end by time, and where waiters are granted.

use super::limits::{CLAIM_WINDOW, GRANT_BOUND, POLL_INTERVAL, REAP_BOUND, SKIP_BOUND};
use super::rows::{Hold, NEVER_US, Waiting};
use super::step::Step;
use crate::holder::{ClientId, HoldState, HolderId};
use crate::request::Message;
use crate::time::micros;
use crate::token::FencingToken;

impl Step<'_> {
    /// Ends holds whose time is over, a bounded number of them.
    pub(super) fn sweep(&mut self) {
        let now_us = self.now_us();
        if self.record.holds.is_empty() {
            return;
        }
        let farthest = now_us + self.record.sweep.longest_ttl_us + micros(CLAIM_WINDOW);
        if self.record.sweep.bound_us > farthest {
            // The store's clock went back. Without this, no lease would end until the clock has
            // caught up with the earlier deadlines.
            self.record.sweep.bound_us = now_us;
            self.record.sweep.cursor = 0;
            self.record.sweep.running_us = NEVER_US;
        }
        if now_us < self.record.sweep.bound_us {
            return;
        }
        for _ in 0..REAP_BOUND {
            let slot = self.record.sweep.cursor;
            if slot >= self.record.holds.len() {
                break;
            }
            let deadline_us = self.record.holds[slot].clamp(now_us);
            if deadline_us <= now_us {
                self.expire(slot);
            } else {
                let sweep = &mut self.record.sweep;
                sweep.running_us = sweep.running_us.min(deadline_us);
                sweep.cursor += 1;
            }
        }
        let count = self.record.holds.len();
        if count == 0 {
            return;
        }
        let sweep = &mut self.record.sweep;
        if sweep.cursor >= count {
            sweep.bound_us = sweep.running_us;
            sweep.cursor = 0;
            sweep.running_us = NEVER_US;
        } else {
            self.more = true;
        }
    }

    /// Grants to one waiter after the other, until one does not fit. Skips dead waiters.
    ///
    /// `caller` is the attempt that has sent the request of this step. Its grant is confirmed
    /// immediately, and needs no message.
    pub(super) fn promote(&mut self, caller: Option<HolderId>) {
        let (mut skipped, mut granted) = (0, 0);
        while let Some((&sequence, head)) = self.record.queue.first_key_value() {
            let (id, weight, capacity) = (head.id, head.weight, head.capacity);
            let is_caller = caller == Some(id);
            if !is_caller && self.is_dead(id.client) {
                if skipped == SKIP_BOUND {
                    self.more = true;
                    return;
                }
                skipped += 1;
                self.record.leave(sequence);
                continue;
            }
            if self.rules.gives_nothing_new() || !self.record.fits(weight, capacity) {
                return;
            }
            if granted == GRANT_BOUND {
                self.more = true;
                return;
            }
            granted += 1;
            self.grant_head(sequence, id.client, is_caller);
        }
    }

    fn is_dead(&self, client: ClientId) -> bool {
        self.last_seen_us(client) + micros(self.rules.dead_after()) <= self.now_us()
    }

    fn last_seen_us(&self, client: ClientId) -> u64 {
        self.record.clients.get(&client).map_or(0, |seen| seen.last_us)
    }

    fn grant_head(&mut self, sequence: u64, client: ClientId, is_caller: bool) {
        let (now_us, last_seen_us) = (self.now_us(), self.last_seen_us(client));
        let Some(waiting) = self.record.leave(sequence) else { return };
        self.record.capacity = waiting.capacity;
        if is_caller {
            let token_us = self.mint(None);
            self.grant(waiting, HoldState::Claimed, token_us, None);
            return;
        }
        // A silent waiter has time until it would count as dead, but at least the time for a poll.
        // So all dead waiters together cost one claim window, and not one each.
        let dead_at_us = last_seen_us + micros(self.rules.dead_after());
        let patience_us = dead_at_us.max(now_us + micros(POLL_INTERVAL));
        let window_us = micros(CLAIM_WINDOW).min(waiting.ttl_us);
        let deadline_us = patience_us.min(now_us + window_us);
        let (id, nonce) = (waiting.id, waiting.nonce);
        let token_us = self.mint(None);
        self.grant(waiting, HoldState::Unclaimed, token_us, Some(deadline_us));
        self.tell_granted(id, nonce, FencingToken::from_micros(token_us), deadline_us);
    }

    /// Writes the hold, for its ttl or until an earlier deadline by which it must be confirmed.
    /// Returns its slot.
    pub(super) fn grant(
        &mut self,
        waiting: Waiting,
        state: HoldState,
        token_us: u64,
        claim_by_us: Option<u64>,
    ) -> usize {
        let now_us = self.now_us();
        let deadline_us = claim_by_us.unwrap_or(now_us + waiting.ttl_us);
        let slot = self.record.add_hold(Hold {
            id: waiting.id,
            weight: waiting.weight,
            state,
            token_us,
            since_us: now_us,
            deadline_us,
            ttl_us: waiting.ttl_us,
            nonce: waiting.nonce,
            info: waiting.info,
        });
        self.keep_until(deadline_us);
        slot
    }

    fn tell_granted(&mut self, id: HolderId, nonce: u64, token: FencingToken, deadline_us: u64) {
        let now_us = self.now_us();
        let attempt = id.attempt;
        let message = Message::Granted { attempt, nonce, token, now_us, deadline_us };
        self.messages.push((id.client, message));
    }
}
