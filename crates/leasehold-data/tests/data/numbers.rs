//! Order numbers over a long way, in tokio's time.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold::error::StoreError;
use leasehold::time::FakeClock;
use leasehold_data::Data;
use leasehold_data::model::{Answer, Request};
use leasehold_data::store::{DataStore, Memory};
use tokio::time::{Instant, sleep, timeout};

/// A store to which requests and replies are long under way. Its clock runs with tokio's.
#[derive(Debug)]
struct Far {
    memory: Memory,
    clock: FakeClock,
    /// Until when the clock has run.
    ran_until: Mutex<Instant>,
    one_way: Duration,
}

impl Far {
    /// The store's clock begins at `phase`.
    fn new(one_way: Duration, phase: Duration) -> Self {
        let clock = FakeClock::new();
        clock.advance(phase);
        let (memory, ran_until) = (Memory::with_clock(clock.clone()), Mutex::new(Instant::now()));
        Self { memory, clock, ran_until, one_way }
    }

    fn run_clock(&self) {
        let mut ran_until = self.ran_until.lock().unwrap();
        self.clock.advance(ran_until.elapsed());
        *ran_until = Instant::now();
    }
}

impl DataStore for Far {
    fn apply(&self, request: Request) -> BoxFuture<'_, Result<Answer, StoreError>> {
        Box::pin(async move {
            sleep(self.one_way).await;
            self.run_clock();
            let answer = self.memory.apply(request).await;
            sleep(self.one_way).await;
            answer
        })
    }
}

#[tokio::test(start_paused = true)]
async fn slow_numbers_reach_a_caller_far_away() {
    for one_way in [125, 600, 1000].map(Duration::from_millis) {
        for phase in (0..1000).step_by(50).map(Duration::from_millis) {
            let numbers = Data::new(Far::new(one_way, phase)).numbers("a").per_second(1);
            for _ in 0..3 {
                let next = timeout(Duration::from_mins(1), numbers.next()).await;
                let next = next.unwrap_or_else(|_| panic!("never from {one_way:?} at {phase:?}"));
                next.unwrap();
            }
        }
    }
}
