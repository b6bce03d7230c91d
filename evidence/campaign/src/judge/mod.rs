//! Judges the records of all processes in one round, by several independent methods.

mod history;
mod jobs;
mod numbers;
mod order;
mod outcome;
mod promises;
mod story;
mod unavailability;
mod updates;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::str::Split;

use self::numbers::Numbers;
pub(crate) use self::outcome::{CHECKS, OF_EXCLUSION, Outcome};
use self::story::{Grant, Promise, Stop, Story, Update, Violation, Wound, number, queue};
use self::unavailability::Unavailable;
use crate::promise::read_logs;
use crate::stall::Stalls;

/// How many violations of each check are shown with the records around them.
const SHOWN: usize = 2;

/// What a round has shown, and the first cases of each check that failed.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) cases: Vec<(&'static str, String)>,
}

#[derive(Debug, Default)]
struct Record {
    stories: BTreeMap<String, Story>,
    updates: HashMap<u64, (String, Update)>,
    adopted: HashMap<u64, u32>,
    wounds: Vec<Wound>,
    numbers: Numbers,
    stops: Vec<Stop>,
}

impl Verdict {
    /// Reads all records in this directory, and judges them. `highest` has the highest token of
    /// each name in the earlier rounds.
    pub(crate) fn of(directory: &Path, highest: &mut HashMap<String, u64>) -> Self {
        let (mut verdict, mut record) = (Self::default(), Record::default());
        for (_, lines) in read_logs(directory) {
            for line in lines.lines() {
                let known = verdict.read(&mut record, line);
                assert!(known.is_some(), "no line of a log: {line:?}");
            }
        }
        for (name, update) in record.updates.drain().map(|(_, update)| update) {
            record.stories.entry(name).or_default().updates.push(update);
        }
        verdict.judge(&mut record, &Stalls::read(directory), highest);
        verdict
    }

    fn read(&mut self, record: &mut Record, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let words = &mut rest.split(' ');
        match kind {
            "p" => record.story(words)?.promises.push(Promise::read(words)?),
            "g" => record.story(words)?.grants.push(Grant::read(words)?),
            "u" => {
                let story = record.story(words)?;
                story.given_up.push((number(words)?, number(words)?));
            }
            "o" => record.story(words)?.queues.push(queue(words)?),
            "j" => record.story(words)?.jobs.push((number(words)?, number(words)?)),
            "m" => record.numbers.read(words)?,
            "l" => record.story(words)?.led.push((number(words)?, number(words)?)),
            "r" => {
                let (name, update) = (words.next()?.to_owned(), Update::read(words)?);
                record.updates.insert(update.value, (name, update));
            }
            "d" => {
                let update = record.updates.get_mut(&number(words)?);
                update?.1.returned = Some((number(words)?, number(words)?));
            }
            "n" => drop(record.updates.remove(&number(words)?)),
            "f" => record.wounds.push(Wound::read(rest)?),
            "a" => *record.adopted.entry(number(words)?).or_default() += 1,
            "z" => record.stops.push((number(words)?, number(words)?, number(words)?)),
            // `Stalls` and `Shop` read these lines.
            "s" | "q" | "k" => {}
            "e" => *self.outcome.events.entry(rest.to_owned()).or_default() += 1,
            "v" => {
                let check = words.next()?;
                let check = CHECKS.into_iter().find(|known| *known == check)?;
                self.violate(check, rest);
            }
            _ => return None,
        }
        Some(())
    }

    fn judge(&mut self, record: &mut Record, stalls: &Stalls, highest: &mut HashMap<String, u64>) {
        self.outcome.rounds = 1;
        self.outcome.stalled_seconds = stalls.total().as_secs_f64();
        self.outcome.faults = Unavailable::of(&mut record.wounds, &record.stories);
        for (name, story) in &mut record.stories {
            story.sort();
            self.outcome.grants += story.grants.len() as u64;
            self.outcome.hand_overs += story.hand_overs();
            let before = highest.entry(name.clone()).or_default();
            let mut found = story.violations(*before);
            found.extend(history::violations(story, stalls));
            found.extend(order::violations(story, &record.stops));
            found.extend(jobs::violations(story));
            let order = updates::search(&mut story.updates);
            self.outcome.updates += story.updates.len() as u64;
            self.outcome.windows += order.windows;
            self.outcome.lost_updates += order.lost;
            found.extend(order.violations);
            *before = story.highest_token().max(*before);
            for violation in found {
                let Violation { check, what, window } = violation;
                let around = match self.shows(check) {
                    true => story.around(window, &record.wounds),
                    false => String::new(),
                };
                self.violate(check, &format!("{name}: {what}\n{around}"));
            }
        }
        record.numbers.violations().iter().for_each(|what| self.violate("numbers", what));
        self.outcome.adopts = record.adopted.len() as u64;
        for number in record.adopted.iter().filter(|(_, count)| **count > 1).map(|(at, _)| at) {
            self.violate("I10", &format!("the lease of guard {number} was adopted twice"));
        }
    }

    /// Counts a violation.
    pub(crate) fn violate(&mut self, check: &'static str, case: &str) {
        if self.shows(check) {
            self.cases.push((check, case.to_owned()));
        }
        *self.outcome.violations.entry(check.to_owned()).or_default() += 1;
    }

    fn shows(&self, check: &str) -> bool {
        self.cases.iter().filter(|(shown, _)| *shown == check).count() < SHOWN
    }
}

impl Record {
    fn story(&mut self, words: &mut Split<'_, char>) -> Option<&mut Story> {
        let name = words.next()?;
        if !self.stories.contains_key(name) {
            self.stories.insert(name.to_owned(), Story::default());
        }
        self.stories.get_mut(name)
    }
}

#[cfg(test)]
mod tests;
