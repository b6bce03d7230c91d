//! Whether what guards promised can all be true.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use leasehold_testkit::must;

use crate::promise::drawn_by;

/// How many violations are told in words.
const TOLD: usize = 8;

/// A span in which a guard was held, by its own words.
#[derive(Clone, Debug)]
struct Promise {
    guard: u64,
    lineage: u64,
    from: u64,
    to: u64,
    token: u64,
    weight: u64,
    capacity: u64,
}

/// A grant: when it was asked for, and by when it had come.
#[derive(Clone, Debug)]
struct Grant {
    asked: u64,
    entered: u64,
    token: u64,
}

/// Everything that was said of one name.
#[derive(Debug, Default)]
struct Story {
    promises: Vec<Promise>,
    grants: Vec<Grant>,
}

/// What all processes wrote, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    stories: HashMap<String, Story>,
    /// How often each thing happened that is only counted.
    pub(crate) events: BTreeMap<String, u64>,
    adopted: HashMap<u64, u32>,
    pub(crate) grants: u64,
    pub(crate) hand_overs: u64,
    pub(crate) adopts: u64,
    /// How often each promise was broken, and the first cases of it.
    pub(crate) violations: BTreeMap<&'static str, u64>,
    pub(crate) cases: Vec<String>,
}

impl Verdict {
    /// Reads all that the processes left behind in this directory, and judges it.
    pub(crate) fn of(directory: &Path) -> Self {
        let mut verdict = Self::default();
        for entry in must(fs::read_dir(directory)) {
            let path = must(entry).path();
            if path.extension().is_some_and(|end| end == "log") {
                let text = must(fs::read_to_string(path));
                // The last line of a killed process may not be whole.
                let whole = text.rfind('\n').map_or("", |end| &text[..end]);
                whole.lines().for_each(|line| {
                    let known = verdict.read(line);
                    assert!(known.is_some(), "no line of a log: {line:?}");
                });
            }
        }
        verdict.judge();
        verdict
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let mut words = line.split(' ');
        match words.next()? {
            "p" => {
                let story = self.stories.entry(words.next()?.to_owned()).or_default();
                let mut number = || words.next()?.parse().ok();
                let (guard, lineage) = (number()?, number()?);
                let (from, to, token) = (number()?, number()?, number()?);
                let (weight, capacity) = (number()?, number()?);
                story.promises.push(Promise { guard, lineage, from, to, token, weight, capacity });
            }
            "g" => {
                let story = self.stories.entry(words.next()?.to_owned()).or_default();
                let mut number = || words.next()?.parse().ok();
                let (asked, entered, token) = (number()?, number()?, number()?);
                story.grants.push(Grant { asked, entered, token });
            }
            "a" => *self.adopted.entry(words.next()?.parse().ok()?).or_default() += 1,
            "e" => *self.events.entry(words.next()?.to_owned()).or_default() += 1,
            _ => return None,
        }
        Some(())
    }

    fn judge(&mut self) {
        for (name, mut story) in std::mem::take(&mut self.stories) {
            story.promises.sort_unstable_by_key(|promise| (promise.from, promise.to));
            self.grants += story.grants.len() as u64;
            self.hand_overs += story.hand_overs();
            for (what, case) in story.violations() {
                self.report(what, format!("{name}: {case}"));
            }
        }
        self.adopts = self.adopted.len() as u64;
        let twice = self.adopted.values().filter(|count| **count > 1).count();
        for _ in 0..twice {
            self.report("one lease adopted twice", String::new());
        }
    }

    fn report(&mut self, what: &'static str, case: String) {
        *self.violations.entry(what).or_default() += 1;
        if self.cases.len() < TOLD && !case.is_empty() {
            self.cases.push(format!("{what}: {case}"));
        }
    }
}

impl Story {
    /// How often another client came to hold than the one before.
    fn hand_overs(&self) -> u64 {
        let mut known = HashSet::new();
        let clients = self.promises.iter().filter(|promise| known.insert(promise.guard));
        let clients: Vec<_> = clients.map(|promise| drawn_by(promise.guard)).collect();
        clients.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64
    }

    fn violations(&mut self) -> Vec<(&'static str, String)> {
        let mut found = self.overlaps();
        found.extend(self.tokens_of_two());
        found.extend(self.promises_out_of_order());
        found.extend(self.grants_out_of_order());
        found
    }

    /// At no instant do those who say that they hold take more than there is: all of it for who
    /// holds alone, one of very many for a reader, as many as asked for of a semaphore.
    fn overlaps(&self) -> Vec<(&'static str, String)> {
        let mut pairs: BTreeMap<_, (u64, String)> = BTreeMap::new();
        let mut now: Vec<&Promise> = Vec::new();
        for promise in &self.promises {
            now.retain(|other| other.to > promise.from && other.guard != promise.guard);
            let taken: u64 = now.iter().map(|other| other.weight).sum();
            if taken + promise.weight > promise.capacity {
                for other in promise.blame(&now) {
                    let pair = (other.guard.min(promise.guard), other.guard.max(promise.guard));
                    let who = || format!("{} and {}", other.who(), promise.who());
                    pairs.entry(pair).or_insert_with(|| (0, who())).0 +=
                        promise.to.min(other.to) - promise.from;
                }
            }
            now.push(promise);
        }
        let case = |(ns, who)| format!("for {:.1?}, {who}", Duration::from_nanos(ns));
        pairs.into_values().map(|pair| ("two hold at once", case(pair))).collect()
    }

    /// Guards of one lease, one after the other, may have one token; nobody else.
    fn tokens_of_two(&self) -> Vec<(&'static str, String)> {
        let mut owners: HashMap<u64, &Promise> = HashMap::new();
        let mut found = BTreeMap::new();
        for promise in &self.promises {
            let owner = owners.entry(promise.token).or_insert(promise);
            if owner.lineage != promise.lineage {
                let case = format!("{} and {}", owner.who(), promise.who());
                found.insert(promise.token, ("two have one token", case));
            }
        }
        found.into_values().collect()
    }

    /// Whoever holds alone has a higher token than all whose promises had ended before, and a lower
    /// one than all whose promises begin after.
    fn promises_out_of_order(&self) -> Vec<(&'static str, String)> {
        let mut ended: Vec<&Promise> = self.promises.iter().collect();
        ended.sort_unstable_by_key(|promise| promise.to);
        let mut ended = ended.into_iter().peekable();
        let (mut of_all, mut of_exclusive) = (0, 0);
        let mut found = BTreeMap::new();
        for promise in &self.promises {
            while let Some(before) = ended.next_if(|before| before.to < promise.from) {
                of_all = of_all.max(before.token);
                if before.is_alone() {
                    of_exclusive = of_exclusive.max(before.token);
                }
            }
            let highest = if promise.is_alone() { of_all } else { of_exclusive };
            if promise.token < highest {
                let case = format!("{highest} was before {}", promise.who());
                found.entry(promise.guard).or_insert(("a lower token later", case));
            }
        }
        found.into_values().collect()
    }

    /// A grant that had come before another was asked for has the lower token.
    fn grants_out_of_order(&mut self) -> Vec<(&'static str, String)> {
        let mut entered = self.grants.clone();
        entered.sort_unstable_by_key(|grant| grant.entered);
        self.grants.sort_unstable_by_key(|grant| grant.asked);
        let mut entered = entered.into_iter().peekable();
        let (mut highest, mut found) = (0, Vec::new());
        for grant in &self.grants {
            while let Some(before) = entered.next_if(|before| before.entered < grant.asked) {
                highest = highest.max(before.token);
            }
            if grant.token <= highest {
                let case = format!("{highest} was granted before {} was asked for", grant.token);
                found.push(("a lower token asked for later", case));
            }
        }
        found
    }
}

impl Promise {
    fn is_alone(&self) -> bool {
        self.weight == self.capacity
    }

    /// Those of others with whom it does not fit: each that is too much alone, or else all.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What a log with these lines is judged to be.
    fn broken(log: &str) -> Vec<&'static str> {
        let directory = must(tempfile::tempdir());
        must(fs::write(directory.path().join("1.log"), log));
        Verdict::of(directory.path()).violations.into_keys().collect()
    }

    /// A promise of a guard (with a lease of its own) on the name `n`.
    fn promise(guard: u64, span: (u64, u64), token: u64, weight: u64, capacity: u64) -> String {
        format!("p n {guard} {guard} {} {} {token} {weight} {capacity}\n", span.0, span.1)
    }

    #[test]
    fn who_holds_alone_is_alone_at_every_instant() {
        let one = promise(1, (10, 20), 5, 9, 9);
        assert_eq!(broken(&(one.clone() + &promise(2, (20, 30), 6, 9, 9))), [""; 0]);
        assert_eq!(broken(&(one.clone() + &promise(2, (19, 30), 6, 9, 9))), ["two hold at once"]);
        assert_eq!(broken(&(one + &promise(2, (12, 14), 6, 1, 9))), ["two hold at once"]);
    }

    #[test]
    fn readers_hold_together_and_permits_add_up_to_the_capacity() {
        let readers = promise(1, (10, 20), 5, 1, 9) + &promise(2, (11, 21), 4, 1, 9);
        assert_eq!(broken(&readers), [""; 0]);
        let permits = promise(1, (10, 20), 5, 2, 4) + &promise(2, (11, 21), 6, 2, 4);
        assert_eq!(broken(&permits), [""; 0]);
        assert_eq!(broken(&(permits + &promise(3, (19, 25), 7, 1, 4))), ["two hold at once"]);
    }

    #[test]
    fn tokens_are_ordered_as_promises_and_as_grants_are() {
        let lower_later = promise(1, (10, 20), 5, 9, 9) + &promise(2, (30, 40), 4, 1, 9);
        assert_eq!(broken(&lower_later), ["a lower token later"]);
        let twice = promise(1, (10, 20), 5, 9, 9) + &promise(2, (30, 40), 5, 9, 9);
        assert_eq!(broken(&twice), ["two have one token"]);
        assert_eq!(broken("g n 1 2 5\ng n 3 4 4\n"), ["a lower token asked for later"]);
        assert_eq!(broken("g n 1 4 5\ng n 3 5 4\n"), [""; 0]);
    }

    #[test]
    fn guards_of_one_lease_may_have_its_token_one_after_the_other() {
        let handed_on = "p n 1 1 10 20 5 9 9\np n 2 1 30 40 5 9 9\na 1\n";
        assert_eq!(broken(handed_on), [""; 0]);
        assert_eq!(broken("a 1\na 1\n"), ["one lease adopted twice"]);
    }

    #[test]
    fn the_line_at_which_a_process_was_killed_is_not_read() {
        assert_eq!(broken("e dropped\np n 1 1 10"), [""; 0]);
    }
}
