//! Checks that numbers are unique, are in order if that is promised, and have no unexplained gap.

use std::collections::{BTreeMap, HashMap};
use std::str::Split;

use super::story::number;

/// A sequence that counts from one, by one.
const WITHOUT_GAPS: &str = "short";

/// Sequences whose numbers grow in the order in which they are given out.
const IN_ORDER: [&str; 2] = ["increasing", WITHOUT_GAPS];

/// The records of all sequences of one round.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<String, Sequence>);

#[derive(Debug, Default)]
struct Sequence {
    /// How often a number was requested.
    tries: u64,
    /// The numbers: when each was requested, and when it came.
    given: Vec<Given>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    value: u64,
    asked: u64,
    answered: u64,
}

impl Numbers {
    pub(super) fn read(&mut self, words: &mut Split<'_, char>) -> Option<()> {
        let sequence = self.0.entry(words.next()?.to_owned()).or_default();
        match words.next()? {
            "try" => sequence.tries += 1,
            value => {
                let value = value.parse().ok()?;
                let (asked, answered) = (number(words)?, number(words)?);
                sequence.given.push(Given { value, asked, answered });
            }
        }
        Some(())
    }

    /// The violations, in words.
    pub(super) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, sequence) in &self.0 {
            let mut wrong = sequence.given_twice();
            if IN_ORDER.contains(&name.as_str()) {
                wrong.extend(sequence.out_of_order());
            }
            if name == WITHOUT_GAPS {
                wrong.extend(sequence.gaps());
            }
            found.extend(wrong.into_iter().map(|what| format!("of {name}: {what}")));
        }
        found
    }
}

impl Sequence {
    fn given_twice(&self) -> Vec<String> {
        let mut times: HashMap<u64, u32> = HashMap::new();
        self.given.iter().for_each(|given| *times.entry(given.value).or_default() += 1);
        let twice = times.into_iter().filter(|(_, times)| *times > 1);
        twice.map(|(value, times)| format!("{value} was given out {times} times")).collect()
    }

    /// A number that was requested after another one had come must be the higher one.
    fn out_of_order(&self) -> Vec<String> {
        let (mut asked, mut answered) = (self.given.clone(), self.given.clone());
        asked.sort_unstable_by_key(|given| given.asked);
        answered.sort_unstable_by_key(|given| given.answered);
        let (mut answered, mut highest) = (answered.into_iter().peekable(), 0);
        let mut found = Vec::new();
        for given in asked {
            while let Some(before) = answered.next_if(|before| before.answered < given.asked) {
                highest = highest.max(before.value);
            }
            if given.value < highest {
                found.push(format!("{} was given out after {highest}", given.value));
            }
        }
        found
    }

    /// Each request may lose one number at most.
    fn gaps(&self) -> Option<String> {
        let highest = self.given.iter().map(|given| given.value).max()?;
        let tries = self.tries;
        (highest > tries)
            .then(|| format!("{highest} was given out, of {tries} that were asked for"))
    }
}
