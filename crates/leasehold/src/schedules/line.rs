//! The keeper's table and its lines: callers come, go and give up while another one holds.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_core::model::CLAIM_WINDOW;
use leasehold_core::{Clock as _, LossReason};
use shuttle::future::{block_on, yield_now};
use shuttle::thread;
use tokio::sync::oneshot;

use super::world::{NAME, TTL, World, acquire, explore, lock};
use crate::sync::{AtomicU64, AtomicUsize};
use crate::{Client, Guard};

const SLICE: Duration = Duration::from_millis(5);

/// Longer than anything here takes.
const LONG_SLICE: Duration = Duration::from_hours(1);

/// A critical section: only one caller may be in it at a time.
#[derive(Default)]
struct Section {
    inside: AtomicUsize,
    last_token: AtomicU64,
    visitors: AtomicU64,
}

impl Section {
    /// Enters the section. Other threads may run while this guard is in it.
    fn enter(&self, guard: &Guard) {
        let token = guard.token().get();
        assert!(guard.is_held(), "it ends with this");
        assert_eq!(self.inside.fetch_add(1, Ordering::AcqRel), 0, "two are in it");
        assert!(self.last_token.fetch_max(token, Ordering::AcqRel) < token, "tokens grow");
        self.inside.fetch_sub(1, Ordering::AcqRel);
        self.visitors.fetch_add(1, Ordering::AcqRel);
    }
}

/// A caller that comes and goes in its own thread.
fn visit(client: &Client, section: &Arc<Section>, drops: bool) -> thread::JoinHandle<()> {
    let (client, section) = (client.clone(), Arc::clone(section));
    thread::spawn(move || {
        let guard = acquire(&client);
        section.enter(&guard);
        match drops {
            true => drop(guard),
            false => block_on(guard.release()).unwrap(),
        }
    })
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn callers_of_one_client_are_alone_and_all_are_served() {
    explore(|| {
        let (world, section) = (World::new(), Arc::default());
        let client = world.client(LONG_SLICE);
        join([true, false, true].map(|drops| visit(&client, &section, drops)));
        world.close(client);
    });
}

#[test]
fn callers_of_two_clients_are_alone_and_all_are_served_while_slices_end() {
    explore(|| {
        let (world, section) = (World::new(), Arc::<Section>::default());
        let clients = [(); 2].map(|()| world.client(SLICE));
        let visits = [(0, true), (1, false), (0, false), (1, true)];
        let visits = visits.map(|(client, drops)| visit(&clients[client], &section, drops));
        // A message can come before its client listens. Then the client asks after a second.
        while section.visitors.load(Ordering::Acquire) < visits.len() as u64 {
            world.clock.advance(SLICE);
            block_on(yield_now());
        }
        join(visits);
        clients.into_iter().for_each(|client| block_on(client.close()).unwrap());
        assert!(!world.is_in_use());
    });
}

#[test]
fn a_caller_that_gives_up_in_the_moment_of_its_turn_leaves_that_to_the_next() {
    explore(|| {
        let (world, section) = (World::new(), Arc::<Section>::default());
        let client = world.client(LONG_SLICE);
        let first = acquire(&client);
        let (give_up, given_up) = oneshot::channel::<()>();
        let gives_up = {
            let (lock, section) = (lock(&client), Arc::clone(&section));
            thread::spawn(move || {
                let acquiring = std::pin::pin!(lock.acquire());
                match block_on(select(acquiring, given_up)) {
                    Either::Left((guard, _)) => section.enter(&guard.unwrap()),
                    Either::Right(_) => {}
                }
            })
        };
        let stays = visit(&client, &section, false);
        let lets_go = thread::spawn(move || drop(first));
        drop(give_up);
        join([gives_up, stays, lets_go]);
        world.close(client);
    });
}

/// The lease is revoked while one caller releases it and another takes it.
#[test]
fn a_lease_that_is_revoked_while_it_is_passed_on_is_lost_by_its_holder() {
    explore(|| {
        let world = World::new();
        let client = world.client(LONG_SLICE);
        let first = acquire(&client);
        let token = first.token();
        world.until_inboxes_are_open(1);
        let next = {
            let client = client.clone();
            thread::spawn(move || {
                let guard = acquire(&client);
                // A grant of the store after that is another lease.
                if guard.token().micros() != token.micros() {
                    return;
                }
                if let Some(reason) = block_on(guard.lost()) {
                    assert_eq!(reason, LossReason::Revoked);
                }
            })
        };
        let lets_go = thread::spawn(move || drop(first));
        let operator = world.client(Duration::ZERO);
        block_on(operator.admin().revoke(NAME, token)).unwrap();
        join([next, lets_go]);
        block_on(operator.close()).unwrap();
        world.close(client);
    });
}

/// A renewal is answered while the lease is passed on from one caller to the next.
#[test]
fn a_renewal_that_is_answered_while_the_lease_is_passed_on_counts_for_its_holder() {
    explore(|| {
        let world = World::new();
        let client = world.client(LONG_SLICE);
        let first = acquire(&client);
        let next = {
            let (client, clock) = (client.clone(), world.clock.clone());
            thread::spawn(move || {
                let guard = acquire(&client);
                // A renewal that was sent before the clock was moved extends the lease only a
                // little. In that case the next renewal counts.
                while guard.validity() < TTL * 3 / 4 {
                    assert!(guard.is_held(), "it was not prolonged");
                    clock.advance(Duration::from_millis(50));
                    block_on(yield_now());
                }
            })
        };
        world.clock.advance(TTL * 2 / 5);
        let lets_go = thread::spawn(move || drop(first));
        join([next, lets_go]);
        world.close(client);
    });
}

/// A caller comes for its grant at the moment in which the grant is given back.
#[test]
fn a_caller_too_late_for_its_grant_is_served_as_is_the_one_that_has_it_instead() {
    explore(|| {
        let (world, section) = (World::new(), Arc::default());
        let clients = [(); 2].map(|()| world.client(LONG_SLICE));
        let first = acquire(&clients[0]);
        let visits = [0, 0, 1].map(|client| visit(&clients[client], &section, true));
        world.until_inboxes_are_open(2);
        drop(first);
        world.clock.advance(CLAIM_WINDOW);
        join(visits);
        clients.into_iter().for_each(|client| block_on(client.close()).unwrap());
        assert!(!world.is_in_use());
    });
}

/// The validity ends while one caller releases the lease and another takes it.
#[test]
fn a_lease_that_runs_out_while_it_is_passed_on_is_held_by_nobody_after_that() {
    explore(|| {
        let world = World::new();
        let client = world.client(LONG_SLICE);
        let first = acquire(&client);
        let (token, clock, end) = (first.token(), world.clock.clone(), world.clock.now() + TTL);
        let next = {
            let client = client.clone();
            thread::spawn(move || {
                let guard = acquire(&client);
                let is_over = clock.now() >= end;
                let is_held = guard.is_held();
                let is_first_lease = guard.token().micros() == token.micros();
                assert!(!(is_over && is_held && is_first_lease), "it is over");
            })
        };
        let lets_go = thread::spawn(move || drop(first));
        world.clock.advance(TTL);
        join([next, lets_go]);
        world.close(client);
    });
}
