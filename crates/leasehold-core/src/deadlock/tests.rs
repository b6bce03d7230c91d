//! Tests with the statuses of several names: some form a deadlock, others only look like one.

use super::*;
use crate::{FencingToken, HolderId, HolderInfo};

/// The statuses of names: `held` by some clients for the given seconds, and `awaited` by others.
struct Scene(Vec<(LockName, Status)>);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn held(client: u128, mode: Mode, since: u64) -> Holder {
    let token = FencingToken::from_number(1).unwrap();
    let info = HolderInfo::new("vm", client as u32);
    Holder::new(id(client), mode, token).with_info(info).with_held_for(seconds(since))
}

fn waits(client: u128, mode: Mode, since: u64) -> Waiter {
    Waiter::new(id(client), mode, HolderInfo::new("vm", client as u32), seconds(since), 1)
}

/// The same waiter, in a process that the clients `of` started while they held leases.
fn inside(mut waiter: Waiter, of: &[u128]) -> Waiter {
    let of = of.iter().copied().map(ClientId).collect();
    waiter.info = waiter.info.with_on_behalf_of(of);
    waiter
}

impl Scene {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn with(mut self, name: &str, holders: &[Holder], waiters: &[Waiter]) -> Self {
        let status = Status::default()
            .with_holders(holders.to_vec())
            .with_waiters(waiters.to_vec())
            .with_waiting(waiters.len() as u32);
        self.0.push((LockName::new(name).unwrap(), status));
        self
    }

    fn deadlocks(&self) -> Vec<Deadlock> {
        let snapshot = |(name, status)| Snapshot { name, status, age: Duration::ZERO };
        deadlocks(&self.0.iter().map(|(name, status)| snapshot((name, status))).collect::<Vec<_>>())
    }

    /// The clients of each deadlock, in the order in which they wait for each other.
    fn clients(&self) -> Vec<Vec<u128>> {
        let found = self.deadlocks();
        let clients = |deadlock: &Deadlock| {
            deadlock.waits.iter().map(|wait| wait.waiter.id.client.0).collect()
        };
        found.iter().map(clients).collect()
    }
}

const ALONE: Mode = Mode::Exclusive;

fn permits(count: u32) -> Mode {
    Mode::Permits { count, capacity: 3 }
}

#[test]
fn two_that_await_what_the_other_holds_are_a_deadlock_and_are_named() {
    let scene = Scene::new().with("a", &[held(1, ALONE, 30)], &[waits(2, ALONE, 20)]).with(
        "b",
        &[held(2, ALONE, 25)],
        &[waits(1, ALONE, 15)],
    );
    let found = scene.deadlocks();
    assert_eq!(scene.clients(), [[2, 1]]);
    assert_eq!(
        found[0].to_string(),
        "vm:2 has waited for a for 20s, which vm:1 has held for 30s; \
         vm:1 has waited for b for 15s, which vm:2 has held for 25s"
    );
}

#[test]
fn a_cycle_of_any_length_is_found_and_a_waiter_behind_it_is_no_part_of_it() {
    let ring = 7;
    let mut scene = Scene::new();
    for client in 0..ring {
        let victim = waits(100 + client, ALONE, 12);
        let next = waits((client + 1) % ring, ALONE, 20);
        scene = scene.with(&format!("{client}"), &[held(client, ALONE, 60)], &[next, victim]);
    }
    let [clients] = &scene.clients()[..] else { panic!("{:?}", scene.clients()) };
    assert_eq!(clients.len(), 7);
    assert!(clients.iter().all(|client| *client < ring), "{clients:?}");
}

#[test]
fn two_deadlocks_are_told_apart() {
    let pair = |scene: Scene, one, other| {
        let name = |client: u128| format!("{client}");
        scene.with(&name(one), &[held(one, ALONE, 30)], &[waits(other, ALONE, 20)]).with(
            &name(other),
            &[held(other, ALONE, 30)],
            &[waits(one, ALONE, 20)],
        )
    };
    assert_eq!(pair(pair(Scene::new(), 1, 2), 3, 4).clients(), [[2, 1], [4, 3]]);
}

#[test]
fn a_chain_whose_end_is_at_work_is_none() {
    let scene = Scene::new().with("a", &[held(1, ALONE, 60)], &[waits(2, ALONE, 20)]).with(
        "b",
        &[held(2, ALONE, 60)],
        &[waits(3, ALONE, 20)],
    );
    assert_eq!(scene.deadlocks(), []);
}

#[test]
fn it_is_none_before_all_have_waited_for_a_while_nor_if_a_hold_began_after_the_wait() {
    let scene = |waited, held_for| {
        Scene::new()
            .with("a", &[held(1, ALONE, 60)], &[waits(2, ALONE, 20)])
            .with("b", &[held(2, ALONE, held_for)], &[waits(1, ALONE, waited)])
            .clients()
            .len()
    };
    assert_eq!((scene(9, 60), scene(10, 60)), (0, 1));
    assert_eq!((scene(20, 18), scene(20, 19)), (0, 1), "a look at two names takes a while");
}

#[test]
fn how_old_a_look_is_counts() {
    let one = Scene::new().with("a", &[held(1, ALONE, 30)], &[waits(2, ALONE, 30)]).0;
    let other = Scene::new().with("b", &[held(2, ALONE, 24)], &[waits(1, ALONE, 24)]).0;
    let snapshot = |scene: &'static [(LockName, Status)], age| {
        let (name, status) = &scene[0];
        Snapshot { name, status, age: seconds(age) }
    };
    let (one, other) = (one.leak(), other.leak());
    assert_eq!(deadlocks(&[snapshot(one, 0), snapshot(other, 6)]).len(), 1, "looked at 6 s apart");
    for age in [0, 6] {
        let found = deadlocks(&[snapshot(one, age), snapshot(other, age)]);
        assert_eq!(found, [], "2 took b after it asked for a");
    }
    let waited_on = deadlocks(&[snapshot(one, 6), snapshot(other, 0)]);
    assert_eq!(waited_on, [], "and has waited since");
}

#[test]
fn readers_beside_readers_wait_for_nobody_and_readers_behind_a_writer_for_the_first() {
    let reader = Mode::Shared;
    let scene = |waiters: &[Waiter]| {
        Scene::new().with("a", &[held(1, reader, 60)], waiters).with(
            "b",
            &[held(2, ALONE, 60)],
            &[waits(1, ALONE, 20)],
        )
    };
    // The store will serve the reader in the next moment.
    assert_eq!(scene(&[waits(2, reader, 20)]).deadlocks(), []);
    let behind = scene(&[waits(3, ALONE, 30), waits(4, reader, 25), waits(2, reader, 20)]);
    let [deadlock] = &behind.deadlocks()[..] else { panic!("{:?}", behind.deadlocks()) };
    assert_eq!(behind.clients(), [[3, 1, 2]], "the writer holds nothing and is in the way");
    assert!(deadlock.to_string().contains("vm:2 has waited for a for 20s, behind vm:3"));
}

#[test]
fn permits_that_others_can_give_back_are_waited_for() {
    let scene = |asked| {
        Scene::new()
            .with(
                "gpu",
                &[held(1, permits(2), 60), held(3, permits(1), 60)],
                &[waits(2, permits(asked), 20)],
            )
            .with("b", &[held(2, ALONE, 60)], &[waits(1, ALONE, 20)])
            .clients()
    };
    assert_eq!(scene(1), Vec::<Vec<u128>>::new(), "3 is at work, and its permit will do");
    assert_eq!(scene(2), [[2, 1]]);
}

#[test]
fn permits_of_one_who_waits_for_another_at_work_come_free() {
    let scene = |at_work| {
        Scene::new()
            .with(
                "gpu",
                &[held(1, permits(2), 60), held(3, permits(1), 60)],
                &[waits(2, permits(1), 20)],
            )
            .with("b", &[held(2, ALONE, 60)], &[waits(1, ALONE, 20)])
            .with("c", &[held(at_work, ALONE, 60)], &[waits(3, ALONE, 20)])
            .clients()
    };
    assert_eq!(scene(5), Vec::<Vec<u128>>::new(), "5 lets go of c, then 3 of its permit");
    assert_eq!(scene(2), [[2, 1], [3, 2]], "who holds c is stuck, too");
}

#[test]
fn names_that_are_taken_in_order_are_none() {
    // Two callers for several names together: a caller that lacks a name holds only names that sort
    // before it.
    let scene = Scene::new()
        .with("a", &[held(1, ALONE, 60)], &[waits(2, ALONE, 20)])
        .with("b", &[held(3, ALONE, 60)], &[waits(1, ALONE, 30)])
        .with("c", &[held(3, ALONE, 60)], &[]);
    assert_eq!(scene.deadlocks(), []);
}

#[test]
fn what_ends_by_itself_is_in_nobodys_way() {
    for state in [HoldState::Cooldown, HoldState::Revoked, HoldState::Unclaimed] {
        let scene = Scene::new()
            .with("a", &[held(1, ALONE, 60).with_state(state)], &[waits(2, ALONE, 20)])
            .with("b", &[held(2, ALONE, 60)], &[waits(1, ALONE, 20)]);
        assert_eq!(scene.deadlocks(), [], "{state:?}");
    }
}

#[test]
fn two_tasks_of_one_client_that_want_the_same_are_contention() {
    let scene = Scene::new().with("a", &[held(1, ALONE, 60)], &[waits(1, ALONE, 20)]);
    assert_eq!(scene.deadlocks(), []);
}

#[test]
fn a_process_waits_on_behalf_of_those_it_was_started_under() {
    let scene = |waiter: Waiter| {
        Scene::new()
            .with("a", &[held(1, ALONE, 60)], &[waits(4, ALONE, 20)])
            .with("b", &[held(4, ALONE, 60)], &[waiter])
            .clients()
    };
    assert_eq!(scene(waits(3, ALONE, 20)), Vec::<Vec<u128>>::new());
    assert_eq!(scene(inside(waits(3, ALONE, 20), &[1])), [[4, 3]]);
    assert_eq!(scene(inside(waits(3, ALONE, 20), &[1, 2])), [[4, 3]], "also further in");
}

#[test]
fn who_waits_for_what_it_was_started_under_is_a_deadlock_by_itself() {
    let inner = inside(waits(2, ALONE, 20), &[1]);
    assert_eq!(Scene::new().with("a", &[held(1, ALONE, 60)], &[inner]).clients(), [[2]]);
}
