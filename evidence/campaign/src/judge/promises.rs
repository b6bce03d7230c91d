//! Checks whether all promises of guards can be true together.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::story::{Grant, Promise, Story, Violation, Wound};

/// How many lines of a history are shown around a violation.
const LINES: usize = 60;

impl Story {
    pub(super) fn sort(&mut self) {
        self.promises.sort_unstable_by_key(|promise| (promise.from, promise.to));
        self.grants.sort_unstable_by_key(|grant| grant.asked);
    }

    /// How often the holder was another client than the holder before.
    pub(super) fn hand_overs(&self) -> u64 {
        let mut known = HashSet::new();
        let clients = self.promises.iter().filter(|promise| known.insert(promise.guard));
        let clients: Vec<_> = clients.map(|promise| promise.guard >> 40).collect();
        clients.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
    }

    pub(super) fn highest_token(&self) -> u64 {
        self.grants.iter().map(|grant| grant.token).max().unwrap_or(0)
    }

    /// The violations, when `before` is the highest token of the earlier rounds.
    pub(super) fn violations(&self, before: u64) -> Vec<Violation> {
        let mut found = self.overlaps();
        found.extend(self.tokens_of_two());
        found.extend(self.promises_out_of_order());
        found.extend(self.grants_out_of_order(before));
        found
    }

    /// At no instant may holders together take more than there is. A lone holder takes everything,
    /// a reader a tiny part, and a holder of permits the requested number.
    fn overlaps(&self) -> Vec<Violation> {
        let mut pairs: BTreeMap<_, (u64, Violation)> = BTreeMap::new();
        let mut now: Vec<&Promise> = Vec::new();
        for promise in &self.promises {
            now.retain(|other| other.to > promise.from && other.guard != promise.guard);
            let taken: u64 = now.iter().map(|other| other.weight).sum();
            if taken + promise.weight > promise.capacity {
                for other in promise.blame(&now) {
                    let pair = (other.guard.min(promise.guard), other.guard.max(promise.guard));
                    let both = other.is_alone() && promise.is_alone();
                    let end = promise.to.min(other.to);
                    let first = || {
                        let who = format!("{} and {}", other.who(), promise.who());
                        let window = (other.from.min(promise.from), end);
                        Violation::new(if both { "I4" } else { "I9" }, who, window)
                    };
                    let (ns, violation) = pairs.entry(pair).or_insert_with(|| (0, first()));
                    *ns += end - promise.from;
                    violation.window.1 = end;
                }
            }
            now.push(promise);
        }
        let told = |(ns, violation): (u64, Violation)| {
            let span = Duration::from_nanos(ns);
            let what = format!("two hold at once for {span:.1?}: {}", violation.what);
            Violation { what, ..violation }
        };
        pairs.into_values().map(told).collect()
    }

    /// Only the guards of one lease, one after the other, may have one token.
    fn tokens_of_two(&self) -> Vec<Violation> {
        let mut owners: HashMap<u64, &Promise> = HashMap::new();
        let mut found = BTreeMap::new();
        for promise in &self.promises {
            let owner = owners.entry(promise.token).or_insert(promise);
            if owner.lineage != promise.lineage {
                let what = format!("one token of {} and {}", owner.who(), promise.who());
                let window = (owner.from.min(promise.from), owner.to.max(promise.to));
                found.insert(promise.token, Violation::new("I1", what, window));
            }
        }
        found.into_values().collect()
    }

    /// A lone holder has a higher token than all promises that had ended before, and a lower one
    /// than all promises that begin after.
    fn promises_out_of_order(&self) -> Vec<Violation> {
        let mut ended: Vec<&Promise> = self.promises.iter().collect();
        ended.sort_unstable_by_key(|promise| promise.to);
        let mut ended = ended.into_iter().peekable();
        let (mut of_all, mut of_exclusive) = ((0, 0), (0, 0));
        let mut found = BTreeMap::new();
        for promise in &self.promises {
            while let Some(before) = ended.next_if(|before| before.to < promise.from) {
                of_all = of_all.max((before.token, before.from));
                if before.is_alone() {
                    of_exclusive = of_exclusive.max((before.token, before.from));
                }
            }
            let (highest, since) = if promise.is_alone() { of_all } else { of_exclusive };
            if promise.token < highest {
                let what = format!("token {highest} was before {}", promise.who());
                let violation = Violation::new("holds", what, (since, promise.to));
                found.entry(promise.guard).or_insert(violation);
            }
        }
        found.into_values().collect()
    }

    /// A grant that came before another request has a lower token than its grant. A lease that was
    /// passed on inside a client is no grant of the store: the last bits of its token say that.
    fn grants_out_of_order(&self, before: u64) -> Vec<Violation> {
        let mut entered: Vec<&Grant> = self.grants.iter().collect();
        entered.sort_unstable_by_key(|grant| grant.entered);
        let mut asked: Vec<_> = self.grants.iter().filter(|it| it.token % (1 << 12) == 0).collect();
        asked.sort_unstable_by_key(|grant| grant.asked);
        let mut entered = entered.into_iter().peekable();
        let (mut highest, mut found) = ((before, 0), Vec::new());
        for grant in asked {
            while let Some(earlier) = entered.next_if(|earlier| earlier.entered < grant.asked) {
                highest = highest.max((earlier.token, earlier.asked));
            }
            if grant.token <= highest.0 {
                let (token, since) = (grant.token, highest.1.max(1));
                let what = format!("{} was granted before {token} was asked for", highest.0);
                let window = (since.min(grant.asked), grant.entered);
                found.push(Violation::new("I2", what, window));
            }
        }
        found
    }

    /// The records of the name in this window, a line each, and the faults of that time.
    pub(super) fn around(&self, window: (u64, u64), wounds: &[Wound]) -> String {
        let (from, to) = window;
        let mut lines = Vec::new();
        let is_near = |begin: u64, end: u64| begin <= to && end >= from;
        for promise in self.promises.iter().filter(|promise| is_near(promise.from, promise.to)) {
            lines.push((promise.from, format!("{} holds", promise.who())));
            lines.push((promise.to, format!("{} held until here", promise.who())));
        }
        for grant in self.grants.iter().filter(|grant| is_near(grant.asked, grant.entered)) {
            let who = format!("process {} token {}", grant.guard >> 48, grant.token);
            lines.push((grant.asked, format!("{who}: asked for")));
            lines.push((grant.entered, format!("{who}: granted")));
        }
        for update in self.updates.iter().filter(|update| is_near(update.invoked, update.end())) {
            let who = format!("update {} token {}", update.value, update.token);
            lines.push((update.invoked, format!("{who}: begins")));
            if let Some((at, old)) = update.returned {
                lines.push((at, format!("{who}: has replaced {old}")));
            }
        }
        for wound in wounds.iter().filter(|wound| is_near(wound.begun, wound.healed)) {
            lines.push((wound.begun, format!("-- {}", wound.kind)));
            lines.push((wound.healed, format!("-- {}: healed", wound.kind)));
        }
        lines.sort_unstable();
        let mut text = String::new();
        let left_out = lines.len().saturating_sub(LINES);
        for (at, line) in lines.into_iter().take(LINES) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {:>12.3} ms  {line}", (at as f64 - from as f64) / 1e6);
        }
        if left_out > 0 {
            let _ = writeln!(text, "  … and {left_out} lines more");
        }
        text
    }
}

impl Promise {
    fn is_alone(&self) -> bool {
        self.weight == self.capacity
    }

    /// The others that conflict with it: each one that is too much alone, or otherwise all.
    fn blame<'a>(&self, others: &[&'a Self]) -> Vec<&'a Self> {
        let is_too_much = |other: &&Self| other.weight + self.weight > self.capacity;
        let each: Vec<_> = others.iter().copied().filter(is_too_much).collect();
        if each.is_empty() { others.to_vec() } else { each }
    }

    fn who(&self) -> String {
        let Self { guard, token, weight, capacity, .. } = self;
        let mode = match (self.is_alone(), weight) {
            (true, _) => "alone".to_owned(),
            (false, 1) if *capacity == u64::from(leasehold_core::LOCK_CAPACITY) => "reading".into(),
            (false, _) => format!("{weight} of {capacity}"),
        };
        let (process, client) = (guard >> 48, guard >> 40 & 0xff);
        format!("process {process} client {client} token {token} {mode}")
    }
}
