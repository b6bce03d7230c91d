//! What a step costs does not depend on how many hold or wait: a step that looked at each of ten
//! thousand would take hundreds of times as long as one that looks at each of ten.

use std::time::Instant;

use super::*;

const FEW: u64 = 10;
const MANY: u64 = 10_000;

/// How much longer a step may take with many: maps are deeper then, and caches smaller.
const RATIO: u32 = 50;

/// What no step among few is quicker than, so that a clock can tell.
const LEAST: Duration = Duration::from_micros(2);

/// Makes a crowd of `count` attempts that acquire, and times what each of some actions takes then,
/// at its quickest of several times.
fn costs(count: u64, mode: Mode, actions: &[Action]) -> Vec<Duration> {
    let mut bench = Bench::new();
    for attempt in 1..=count {
        bench.acquire(id(1, attempt), mode);
    }
    let mut quickest = vec![Duration::MAX; actions.len()];
    for _ in 0..5 {
        let crowd = bench.record.clone();
        for (action, quickest) in actions.iter().zip(&mut quickest) {
            let begin = Instant::now();
            bench.act(action);
            *quickest = begin.elapsed().min(*quickest);
        }
        bench.record = crowd;
    }
    quickest
}

fn assert_same_cost(mode: Mode) {
    let bench = Bench::new();
    let release = |attempt| {
        let (id, cooldown) = (id(1, attempt), Duration::ZERO);
        Action::Release { id, cooldown, unanswered: false }
    };
    let renew = |attempt| Action::Renew { id: id(1, attempt), ttl: TTL, mode, change: 0 };
    let actions = [
        renew(1),
        renew(9),
        Action::Poll { id: id(1, 10), ttl: TTL },
        Action::Poll { id: id(1, 2), ttl: TTL },
        Action::Acquire(bench.request(id(2, 1), mode)),
        Action::Cancel { id: id(1, 5), unanswered: false },
        release(1),
        release(2),
        Action::Inspect { limit: 3 },
    ];
    let (few, many) = (costs(FEW, mode, &actions), costs(MANY, mode, &actions));
    for (action, (few, many)) in actions.iter().zip(few.into_iter().zip(many)) {
        assert!(many < few.max(LEAST) * RATIO, "{many:?} instead of {few:?}: {action:?}");
    }
}

#[test]
fn a_step_costs_with_ten_thousand_waiters_what_it_costs_with_ten() {
    assert_same_cost(Mode::Exclusive);
}

#[test]
fn a_step_costs_with_ten_thousand_permits_held_what_it_costs_with_ten() {
    assert_same_cost(permits(1, 20_000));
}
