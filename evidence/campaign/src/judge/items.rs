//! Checks that a queue has lost or doubled no entry, and has shown entries in order. Checks that no
//! holder ended an entry after another holder had taken over.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::str::Split;

use super::story::number;

/// The records about the queue of one round.
#[derive(Debug, Default)]
pub(super) struct Items {
    /// When the append of each entry was first requested, and when it was known to be done.
    new: HashMap<u64, u64>,
    pushed: HashMap<u64, u64>,
    taken: Vec<Taken>,
    /// By the result that each end should store.
    ends: BTreeMap<u64, End>,
    refused: HashSet<u64>,
    /// The stored result of each entry; zero if there is none.
    results: BTreeMap<u64, u64>,
}

/// The entries that a holder was shown.
#[derive(Debug)]
struct Taken {
    token: u64,
    asked: u64,
    answered: u64,
    ids: Vec<u64>,
}

/// The result of a holder for an entry.
#[derive(Debug)]
struct End {
    id: u64,
    token: u64,
    asked: u64,
    /// When the holder learned that the result is stored.
    answered: Option<u64>,
}

impl Items {
    pub(super) fn read(&mut self, words: &mut Split<'_, char>) -> Option<()> {
        match words.next()? {
            "new" => drop(self.new.insert(number(words)?, number(words)?)),
            "pushed" => {
                let (id, answered) = (number(words)?, number(words)?);
                let known = self.pushed.entry(id).or_insert(answered);
                *known = answered.min(*known);
            }
            "taken" => {
                let (token, asked, answered) = (number(words)?, number(words)?, number(words)?);
                let ids = words.map(|id| id.parse().ok()).collect::<Option<_>>()?;
                self.taken.push(Taken { token, asked, answered, ids });
            }
            "ends" => {
                let (result, id) = (number(words)?, number(words)?);
                let (token, asked) = (number(words)?, number(words)?);
                self.ends.insert(result, End { id, token, asked, answered: None });
            }
            "ended" => {
                let (result, answered) = (number(words)?, number(words)?);
                self.ends.get_mut(&result)?.answered = Some(answered);
            }
            "refused" => drop(self.refused.insert(number(words)?)),
            "result" => drop(self.results.insert(number(words)?, number(words)?)),
            _ => return None,
        }
        Some(())
    }

    /// The violations, in words.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = self.lost_or_doubled();
        found.extend(self.taken.iter().flat_map(|taken| self.shown_wrongly(taken)));
        found.extend(self.ended_by_the_overtaken());
        found
    }

    /// Checks that a holder with a confirmed end is the only one, and that its result is stored.
    fn lost_or_doubled(&self) -> Vec<String> {
        let mut ended: HashMap<u64, u64> = HashMap::new();
        let mut found = Vec::new();
        for (result, end) in &self.ends {
            if end.answered.is_some()
                && let Some(other) = ended.insert(end.id, *result)
            {
                found.push(format!("{} was ended twice, by {other} and {result}", end.id));
            }
        }
        if self.results.is_empty() {
            return found;
        }
        let all: BTreeSet<u64> = self.pushed.keys().chain(ended.keys()).copied().collect();
        for id in all {
            let result = self.results.get(&id).copied().unwrap_or(0);
            let is_known = self.ends.get(&result).is_some_and(|end| end.id == id);
            match ended.get(&id) {
                Some(other) if *other != result => {
                    found.push(format!("{id} was ended by {other}, and its result is {result}"));
                }
                _ if result == 0 => found.push(format!("{id} was appended, and is lost")),
                _ if !is_known || self.refused.contains(&result) => {
                    found.push(format!("{id} has the result {result}, which nobody stored"));
                }
                _ => {}
            }
        }
        found
    }

    /// Checks that the oldest entries are shown first, and none that had ended before.
    fn shown_wrongly(&self, taken: &Taken) -> Vec<String> {
        let mut found = Vec::new();
        for end in self.ends.values() {
            if end.answered.is_some_and(|at| at < taken.asked) && taken.ids.contains(&end.id) {
                found.push(format!("{} had been ended, and was shown again", end.id));
            }
        }
        for pair in taken.ids.windows(2) {
            let known = (self.new.get(&pair[0]), self.pushed.get(&pair[1]));
            if let (Some(asked), Some(answered)) = known
                && answered < asked
            {
                found.push(format!("{} was shown before {}, which is older", pair[0], pair[1]));
            }
        }
        found
    }

    /// Once a holder was shown entries, no holder with a lower token may end one.
    fn ended_by_the_overtaken(&self) -> Vec<String> {
        let mut takes: Vec<(u64, u64)> =
            self.taken.iter().map(|taken| (taken.answered, taken.token)).collect();
        takes.sort_unstable();
        let ended = self.ends.iter().filter(|(_, end)| end.answered.is_some());
        let overtaken = ended.filter_map(|(result, end)| {
            let before = takes.iter().take_while(|(answered, _)| *answered < end.asked);
            let newest = before.map(|(_, token)| *token).max()?;
            (newest > end.token)
                .then(|| format!("{result} of token {} was stored after {newest}", end.token))
        });
        overtaken.collect()
    }
}
