//! Random histories: the database has the same records as the model.

use std::collections::HashMap;

use leasehold_core::Now;
use leasehold_core::backoff::Jitter;
use leasehold_core::model;

use super::*;

/// Random actions, like those of a busy program, including some that come late, twice or never.
struct History {
    random: Jitter,
    attempt: u64,
    /// With a number, that many clients take turns with the attempts, so that many of them hold and
    /// wait. Without a number, a few clients guess at attempts.
    crowd: Option<u64>,
}

impl History {
    fn new(seed: u64, crowd: Option<u64>) -> Self {
        Self { random: Jitter::new(seed), attempt: 0, crowd }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn client(&mut self, attempt: u64) -> ClientId {
        let number = match self.crowd {
            Some(clients) => attempt % clients,
            None => self.below(4),
        };
        ClientId(number.into())
    }

    /// The pause before the next action, in microseconds: shorter if there are many clients.
    fn pause_us(&mut self) -> u64 {
        self.below(self.crowd.map_or(400_000, |_| 30_000))
    }

    fn action(&mut self, now_us: u64) -> Action {
        let recent = self.attempt.saturating_sub(self.below(self.crowd.map_or(8, |_| 60)));
        let client = self.client(recent);
        let id = HolderId { client, attempt: recent };
        let ttl = Duration::from_millis(100 + self.below(5000));
        match self.below(21) {
            0..=7 => {
                self.attempt += 1;
                let mode = match self.below(8) {
                    0..=3 => Mode::Exclusive,
                    4..=6 => Mode::Shared,
                    _ => Mode::Permits { count: 1 + self.below(3) as u32, capacity: 3 },
                };
                let attempt = if self.below(6) == 0 { recent } else { self.attempt };
                let id = HolderId { client: self.client(attempt), attempt };
                let request = Acquire::new(id, mode, ttl)
                    .with_wait(self.below(4) > 0)
                    .with_nonce(self.below(u64::MAX))
                    .with_not_after((now_us + 1_000_000).saturating_sub(self.below(1_100_000)));
                Action::Acquire(request)
            }
            8 => Action::Cancel { id, unanswered: self.below(2) == 0 },
            9..=12 => Action::Poll { id, ttl },
            13..=16 => Action::Release {
                id,
                cooldown: if self.below(5) == 0 { ttl } else { Duration::ZERO },
                unanswered: self.below(4) == 0,
            },
            17 => Action::Inspect { limit: 10 },
            18 => {
                self.attempt += 1;
                let by = (ClientId(u128::from(self.below(4))), self.attempt);
                // With any token.
                adopt(by, (client, recent), 0)
            }
            _ => Action::Renew { id, ttl },
        }
    }
}

#[tokio::test]
async fn a_random_history_leaves_the_same_records_as_the_model() {
    compare_with_model(History::new(20_260_101, None), 20_000).await;
}

#[tokio::test]
async fn a_random_history_of_a_crowd_leaves_the_same_records_as_the_model() {
    compare_with_model(History::new(20_260_102, Some(40)), 1_500).await;
}

/// Compares each reply and each record.
async fn compare_with_model(mut history: History, steps: u32) {
    let place = Place::new();
    let store = place.open();
    let mut records: HashMap<LockName, Record> = HashMap::new();
    let reader = Connection::open(place.path()).unwrap();
    for step in 0..steps {
        place.clock.advance(Duration::from_micros(history.pause_us()));
        if history.below(50) == 0 {
            place.clock.step_wall(history.below(2_000_000) as i64 - 1_000_000);
        }
        let now = Now::of(&place.clock);
        let name = name(["a", "b", "c"][history.below(3) as usize]);
        let action = history.action(now.lease_us);
        let record = records.entry(name.clone()).or_default();
        let expected = model::step(record, now, RULES, &action);
        let operation = Operation::On { name: name.clone(), action: action.clone() };
        let answer = store.execute(operation).await.unwrap();
        assert_eq!(answer, Answer::new(now, expected.reply).with_more(expected.more), "{action:?}");
        let found = record_by(&reader, &name).unwrap_or_default();
        assert_eq!(*record, found, "step {step}: {action:?}");
    }
}
