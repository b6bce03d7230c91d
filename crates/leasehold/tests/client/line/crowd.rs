//! Whatever callers do, one holds at a time, all are served, and nothing is left behind.

use std::time::Duration;

use leasehold::{Client, FencingToken, Guard};
use leasehold_core::backoff::Jitter;

use super::world::{Call, SLICE, World, must, settle};

enum Caller {
    Idle,
    Waits(Call),
    Holds(Guard),
}

/// Callers of two clients, and the leases that they were granted so far.
struct Crowd {
    world: World,
    clients: Vec<Client>,
    callers: Vec<Caller>,
    last: Option<FencingToken>,
    jitter: Jitter,
}

impl Crowd {
    async fn new(seed: u64) -> Self {
        let world = World::new();
        let clients = vec![world.client().await, world.client().await];
        let callers = (0..8).map(|_| Caller::Idle).collect();
        Self { world, clients, callers, last: None, jitter: Jitter::new(seed) }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.jitter.next_u64() % limit
    }

    fn poll(&mut self, at: usize) {
        let Caller::Waits(call) = &mut self.callers[at] else { return };
        if let Some(done) = call.poll() {
            let guard = must(done);
            assert!(self.last.replace(guard.token()) < Some(guard.token()), "tokens grow");
            self.callers[at] = Caller::Holds(guard);
        }
    }

    async fn lets_go(&mut self, at: usize) {
        if let Caller::Holds(guard) = std::mem::replace(&mut self.callers[at], Caller::Idle) {
            match self.below(2) {
                0 => drop(guard),
                _ => drop(tokio::spawn(guard.release())),
            }
        }
    }

    /// A caller does something, or time passes, or the store has trouble.
    async fn step(&mut self) {
        let at = self.below(8) as usize;
        match self.below(20) {
            0..=3 if matches!(self.callers[at], Caller::Idle) => {
                self.callers[at] = Caller::Waits(Call::new(&self.clients[at % 2]));
                self.poll(at);
            }
            0..=9 => self.poll(at),
            10..=13 => self.lets_go(at).await,
            14 if matches!(self.callers[at], Caller::Waits(_)) => self.callers[at] = Caller::Idle,
            14 => self.world.hold_back(Some("acquire")),
            15 => self.world.hold_back(Some("release")),
            16 => self.world.hold_back(None),
            17 => self.world.clock.advance(Duration::from_millis(1)),
            18 => self.world.clock.advance(SLICE),
            _ => self.world.clock.advance(Duration::from_secs(1)),
        }
        settle().await;
        let holders = self.callers.iter().filter(|caller| match caller {
            Caller::Holds(guard) => guard.is_held(),
            Caller::Idle | Caller::Waits(_) => false,
        });
        assert!(holders.count() <= 1, "one holds at a time");
    }

    fn waits(&self) -> bool {
        self.callers.iter().any(|caller| matches!(caller, Caller::Waits(_)))
    }
}

#[tokio::test]
async fn whatever_callers_do_one_holds_at_a_time_and_all_are_served() {
    for seed in 0..12 {
        let mut crowd = Crowd::new(seed).await;
        for _ in 0..150 {
            crowd.step().await;
        }
        crowd.world.hold_back(None);
        for _ in 0..100 {
            for at in 0..crowd.callers.len() {
                crowd.poll(at);
                crowd.lets_go(at).await;
                settle().await;
            }
            crowd.world.clock.advance(Duration::from_millis(100));
            settle().await;
        }
        assert!(!crowd.waits(), "all are served, seed {seed}");
        drop(crowd.callers);
        crowd.world.clock.advance(Duration::from_secs(5));
        settle().await;
        let looked = crowd.clients[0].admin().inspect("a").await.unwrap();
        assert_eq!((looked.holders.len(), looked.waiting), (0, 0), "nothing is left, seed {seed}");
    }
}

/// The caller is first, second or third in line. The name is free, or another client holds it. The
/// first request has its answer, or not yet.
#[tokio::test]
async fn a_caller_that_is_dropped_at_any_await_wherever_in_line_leaves_nothing_behind() {
    for (place, polls, case) in
        (0..3).flat_map(|p| (0..5).flat_map(move |n| (0..4).map(move |case| (p, n, case))))
    {
        let (is_held, is_slow) = (case % 2 == 1, case / 2 == 1);
        let world = World::new();
        let (client, other) = (world.client().await, world.client().await);
        Call::new(&client).granted().release().await.unwrap();
        let mut held = is_held.then(|| Call::new(&other).granted());
        settle().await;
        world.hold_back(is_slow.then_some("acquire"));
        let mut calls: Vec<_> = (0..3).map(|_| Some(Call::new(&client))).collect();
        let mut guards = Vec::new();
        for round in 0..=polls {
            if round == polls {
                calls[place] = None;
            }
            if round == 2 {
                world.hold_back(None);
                held = None;
            }
            for call in &mut calls {
                if let Some(done) = call.as_mut().and_then(Call::poll) {
                    guards.push(must(done));
                    *call = None;
                }
            }
            settle().await;
        }
        world.hold_back(None);
        drop(held);
        for _ in 0..10 {
            guards.clear();
            settle().await;
            for call in &mut calls {
                if let Some(done) = call.as_mut().and_then(Call::poll) {
                    guards.push(must(done));
                    *call = None;
                }
                assert!(guards.iter().filter(|guard| guard.is_held()).count() <= 1);
            }
            world.clock.advance(Duration::from_millis(200));
        }
        let at = format!("place {place}, {polls} polls, held {is_held}, slow {is_slow}");
        assert!(calls.iter().all(Option::is_none), "all others are served: {at}");
        drop(guards);
        settle().await;
        let looked = client.admin().inspect("a").await.unwrap();
        assert_eq!((looked.holders.len(), looked.waiting), (0, 0), "{at}");
    }
}
