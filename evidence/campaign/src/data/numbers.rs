//! Numbers that are unique.

use std::sync::Arc;

use leasehold_data::{Data, Numbers};

use super::{TRIES, ask};
use crate::plan::Sequence;
use crate::promise::{Log, now_ns};
use crate::random::Random;

/// The size of a block, for processes that take several numbers in one request.
const BLOCK: u64 = 20;

/// The sequences of one round.
#[derive(Clone, Default)]
pub(crate) struct Counters(Vec<Counter>);

#[derive(Clone)]
struct Counter {
    name: &'static str,
    numbers: Numbers,
    log: Arc<Log>,
}

impl Counters {
    pub(super) fn new(sequences: &[Sequence], data: &Data, name: &str, log: &Arc<Log>) -> Self {
        let counter = |sequence: &Sequence| {
            let numbers = data.numbers(format!("{name}-{}", sequence.name()));
            let numbers = match sequence {
                Sequence::Blocks => numbers.block(BLOCK),
                Sequence::Increasing => numbers.strictly_increasing(),
                Sequence::Short => numbers.short().strictly_increasing(),
            };
            Counter { name: sequence.name(), numbers, log: Arc::clone(log) }
        };
        Self(sequences.iter().map(counter).collect())
    }

    pub(crate) async fn draw(&self, random: &mut Random) {
        let Counter { name, numbers, log } = &self.0[random.below(self.0.len())];
        let asked = now_ns();
        let next = || {
            // Each try may use up a number whose answer is lost.
            log.number(&format!("{name} try"));
            numbers.next()
        };
        if let Some(number) = ask(log, "numbers", TRIES, next).await {
            log.event("number");
            log.number(&format!("{name} {} {asked} {}", number.value(), now_ns()));
        }
    }
}
