//! Tests with the looks at several names: some form a deadlock, others only look like one.

use leasehold::FencingToken;
use leasehold::admin::{HolderId, HolderInfo, Status};
use leasehold::lease::Mode;

use super::*;

const ALONE: Mode = Mode::Exclusive;

/// When the names are looked at, in milliseconds since 1970.
const SEEN_MS: u64 = 1_800_000_000_000;

/// The names that were looked at: `held` by some clients for the given seconds, and `awaited` by
/// others.
struct Scene(Vec<(LockName, Row)>);

fn id(client: u128) -> HolderId {
    HolderId { client: ClientId(client), attempt: 1 }
}

fn info(client: u128) -> HolderInfo {
    HolderInfo::new("vm", client as u32)
}

fn held(client: u128, mode: Mode, since: u64) -> Holder {
    let token = FencingToken::from_number(1).unwrap();
    let holder = Holder::new(id(client), mode, Some(token)).with_info(info(client));
    holder.with_held_for(Duration::from_secs(since))
}

fn waits(client: u128, mode: Mode, since: u64) -> Waiter {
    Waiter::new(id(client), mode, info(client), Duration::from_secs(since), 1)
}

fn permits(count: u32) -> Mode {
    Mode::Permits { count, capacity: 3 }
}

impl Scene {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn with(self, name: &str, holders: &[Holder], waiters: &[Waiter]) -> Self {
        self.with_late(0, name, holders, waiters)
    }

    /// One has held this name alone for a minute, and another has waited for it for 20 s.
    fn pair(self, name: &str, holder: u128, waiter: u128) -> Self {
        self.with(name, &[held(holder, ALONE, 60)], &[waits(waiter, ALONE, 20)])
    }

    /// The holders of three permits, one of whom has two, and one who waits for some.
    fn permits(self, asked: u32) -> Self {
        let holders = [held(1, permits(2), 60), held(3, permits(1), 60)];
        self.with("gpu", &holders, &[waits(2, permits(asked), 20)])
    }

    /// The same as [`Self::with`], of a name that is looked at later.
    fn with_late(
        mut self,
        seconds: u64,
        name: &str,
        holders: &[Holder],
        waiters: &[Waiter],
    ) -> Self {
        let status = Status::default()
            .with_holders(holders.to_vec())
            .with_waiters(waiters.to_vec())
            .with_waiting(waiters.len() as u32);
        let mut row = Row::new(SEEN_MS);
        row.saw(Ok(status), SEEN_MS + seconds * 1000);
        self.0.push((LockName::new(name).unwrap(), row));
        self
    }

    fn deadlocks(&self) -> Vec<Deadlock<'_>> {
        deadlocks(&self.0.iter().map(|(name, row)| (name, row)).collect::<Vec<_>>())
    }

    /// The clients of each deadlock, in the order in which they wait for each other.
    fn clients(&self) -> Vec<Vec<u128>> {
        let clients = |deadlock: Deadlock<'_>| {
            deadlock.0.iter().map(|wait| wait.waiter.id.client.0).collect()
        };
        self.deadlocks().into_iter().map(clients).collect()
    }
}

const NONE: [[u128; 0]; 0] = [];

#[test]
fn two_that_await_what_the_other_holds_are_a_deadlock_and_are_named() {
    let scene = Scene::new().with("a", &[held(1, ALONE, 30)], &[waits(2, ALONE, 20)]).with(
        "b",
        &[held(2, ALONE, 25)],
        &[waits(1, ALONE, 15)],
    );
    let [found] = &scene.deadlocks()[..] else { panic!("{:?}", scene.clients()) };
    assert_eq!(
        found.to_string(),
        "vm:2 has waited for a for 20s, which vm:1 has held for 30s; \
         vm:1 has waited for b for 15s, which vm:2 has held for 25s"
    );
    assert!(found.has(&scene.0[0].0) && !found.has(&LockName::new("c").unwrap()));
}

#[test]
fn a_circle_of_any_length_is_found_and_a_waiter_behind_it_is_no_part_of_it() {
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
    let scene = Scene::new().pair("1", 1, 2).pair("2", 2, 1).pair("3", 3, 4).pair("4", 4, 3);
    assert_eq!(scene.clients(), [[2, 1], [4, 3]]);
}

#[test]
fn a_chain_whose_end_is_at_work_is_none() {
    assert_eq!(Scene::new().pair("a", 1, 2).pair("b", 2, 3).clients(), NONE);
}

#[test]
fn it_is_none_before_all_have_waited_for_a_while_nor_if_a_hold_began_after_the_wait() {
    let scene = |waited, held_for| {
        Scene::new()
            .pair("a", 1, 2)
            .with("b", &[held(2, ALONE, held_for)], &[waits(1, ALONE, waited)])
            .clients()
            .len()
    };
    assert_eq!((scene(9, 60), scene(10, 60)), (0, 1));
    assert_eq!((scene(20, 18), scene(20, 19)), (0, 1), "a look at two names takes a while");
}

#[test]
fn a_circle_counts_if_all_of_it_was_there_at_the_first_look() {
    let scene = |late| {
        let (holders, waiters) = ([held(2, ALONE, 60)], [waits(1, ALONE, 20)]);
        Scene::new().pair("a", 1, 2).with_late(late, "b", &holders, &waiters)
    };
    assert_eq!(scene(20).clients(), [[2, 1]]);
    assert_eq!(scene(21).clients(), NONE, "2 may have given up before 1 began to wait");
}

#[test]
fn readers_beside_readers_wait_for_nobody_and_readers_behind_a_writer_for_the_first() {
    let reader = Mode::Shared;
    let scene = |waiters: &[Waiter]| {
        Scene::new().with("a", &[held(1, reader, 60)], waiters).pair("b", 2, 1)
    };
    // The store will serve the reader in the next moment.
    assert_eq!(scene(&[waits(2, reader, 20)]).clients(), NONE);
    let behind = scene(&[waits(3, ALONE, 30), waits(4, reader, 25), waits(2, reader, 20)]);
    assert_eq!(behind.clients(), [[2, 1]], "the writer is in the way because of 1");
}

#[test]
fn permits_that_others_can_give_back_are_waited_for() {
    let scene = |asked| Scene::new().permits(asked).pair("b", 2, 1).clients();
    assert_eq!(scene(1), NONE, "3 is at work, and its permit will do");
    assert_eq!(scene(2), [[1, 2]]);
}

#[test]
fn permits_of_one_who_waits_for_another_at_work_come_free() {
    let scene = |at_work| Scene::new().permits(1).pair("b", 2, 1).pair("c", at_work, 3).clients();
    assert_eq!(scene(5), NONE, "5 lets go of c, then 3 of its permit");
    assert_eq!(scene(2), [[1, 2]], "3 waits behind them");
}

#[test]
fn names_that_are_taken_in_order_are_none() {
    // Two callers for several names together: a caller that lacks a name holds only names that sort
    // before it.
    let scene = Scene::new()
        .pair("a", 1, 2)
        .with("b", &[held(3, ALONE, 60)], &[waits(1, ALONE, 30)])
        .with("c", &[held(3, ALONE, 60)], &[]);
    assert_eq!(scene.clients(), NONE);
}

#[test]
fn what_ends_by_itself_is_in_nobodys_way() {
    for state in [HoldState::Cooldown, HoldState::Revoked] {
        let scene = Scene::new()
            .with("a", &[held(1, ALONE, 60).with_state(state)], &[waits(2, ALONE, 20)])
            .pair("b", 2, 1);
        assert_eq!(scene.clients(), NONE, "{state:?}");
    }
}

#[test]
fn two_tasks_of_one_client_that_want_the_same_are_contention() {
    assert_eq!(Scene::new().pair("a", 1, 1).clients(), NONE);
}
