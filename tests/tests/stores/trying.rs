//! Several names, which many callers far from the store try for at the same time.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::store::Memory;
use leasehold::time::FakeClock;
use leasehold::{Client, LockName};
use leasehold_core::backoff::Jitter;
use leasehold_testkit::{Faults, Faulty, Subject, must};

const CLIENTS: usize = 8;
const NAMES: u64 = 6;
const ROUNDS: u64 = 16;

/// How long a request takes at most, each way.
const DELAY: Duration = Duration::from_millis(20);

async fn far_clients(seed: u64) -> (Subject, Vec<Client>) {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let faults = Faults { delay: DELAY, timeout: 100 * DELAY, ..Faults::default() };
    let network = Faulty::new(subject.store(), clock, faults, seed);
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(subject.client_of(network.clone()).await);
    }
    (subject, clients)
}

/// Some of the names, at least one.
fn some_names(names: &[LockName], random: &mut Jitter) -> Vec<LockName> {
    let chosen = 1 + random.next_u64() % ((1 << NAMES) - 1);
    let is_chosen = |index: &usize| chosen & (1 << index) > 0;
    (0..names.len()).filter(is_chosen).map(|index| names[index].clone()).collect()
}

/// If all want the same names, exactly one gets them. Otherwise the names of those who succeed
/// differ, and at least one succeeds.
#[tokio::test]
async fn of_far_callers_that_try_for_common_names_at_once_somebody_gets_all_its_names() {
    let mut random = Jitter::new(7);
    for round in 0..ROUNDS {
        let (subject, clients) = far_clients(round).await;
        let all: Vec<_> =
            (0..NAMES).map(|number| subject.fresh_name(&number.to_string())).collect();
        let are_the_same = round % 2 == 0;
        let mut locks = Vec::new();
        for client in &clients {
            let names = if are_the_same { all.clone() } else { some_names(&all, &mut random) };
            locks.push(client.multi(&names));
        }
        let tries = join_all(locks.iter().map(leasehold::Lock::try_acquire));
        let guards: Vec<_> = subject.drive(tries).await.into_iter().filter_map(must).collect();
        assert!(!guards.is_empty(), "round {round}");
        assert!(!are_the_same || guards.len() == 1, "round {round}: {guards:?}");
        let mut held: Vec<_> = guards.iter().flat_map(leasehold::Guard::tokens).collect();
        let count = held.len();
        held.sort();
        held.dedup_by_key(|(name, _)| name.clone());
        assert_eq!(held.len(), count, "round {round}: {guards:?}");
        drop(guards);
        subject.pass(10 * DELAY).await;
        for name in &all {
            let status = must(subject.drive(clients[0].admin().inspect(name)).await);
            assert!(status.is_free(), "round {round}: {status:?}");
        }
    }
}

/// A try does not wait for a holder that works under one of the names, however free the others are.
#[tokio::test]
async fn a_try_is_not_held_up_by_a_holder_at_work_under_one_of_its_names() {
    let clock = FakeClock::new();
    let subject = Subject::fake(Memory::with_clock(clock.clone()), clock.clone());
    let client = subject.client().await;
    let busy = must(subject.drive(client.mutex("b").acquire()).await);
    subject.pass(Duration::from_secs(1)).await;
    let began = leasehold::time::Clock::now(&clock);
    let lock = client.multi(["a", "b", "c"]);
    assert!(must(subject.drive(lock.try_acquire()).await).is_none());
    let took = leasehold::time::Clock::now(&clock).saturating_since(began);
    assert!(took.is_zero(), "{took:?}");
    must(subject.drive(busy.release()).await);
    assert!(must(subject.drive(lock.try_acquire()).await).is_some());
}
