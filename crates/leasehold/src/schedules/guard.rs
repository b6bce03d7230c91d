//! The last drop of a guard, re-entry during a release, and the end of the client during both.

use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;

use super::world::{World, acquire, explore};

const SLICE: Duration = Duration::from_millis(5);

#[test]
fn of_guards_that_go_at_once_each_holds_until_it_goes_and_the_last_releases_once() {
    explore(|| {
        let world = World::new();
        let client = world.client(SLICE);
        let first = acquire(&client);
        let others = [first.reenter().unwrap(), first.reenter().unwrap()];
        let going = [Some(first), None].into_iter().flatten().chain(others).enumerate();
        let going: Vec<_> = going
            .map(|(number, guard)| {
                thread::spawn(move || {
                    assert!(guard.is_held());
                    match number {
                        0 => drop(guard),
                        _ => block_on(guard.release()).unwrap(),
                    }
                })
            })
            .collect();
        going.into_iter().for_each(|guard| guard.join().unwrap());
        world.close(client);
        assert_eq!(world.releases(), 1);
    });
}

#[test]
fn a_caller_that_re_enters_while_another_guard_goes_holds_on() {
    explore(|| {
        let world = World::new();
        let client = world.client(SLICE);
        let guard = acquire(&client);
        let other = guard.reenter().unwrap();
        let releases = thread::spawn(move || block_on(guard.release()).unwrap());
        let again = other.reenter().unwrap();
        drop(other);
        assert!(again.is_held() && world.record().holders().len() == 1);
        releases.join().unwrap();
        assert!(again.is_held() && world.record().holders().len() == 1);
        block_on(again.release()).unwrap();
        world.close(client);
        assert_eq!(world.releases(), 1);
    });
}

#[test]
fn a_guard_that_goes_while_its_client_ends_is_released_before_that_has() {
    explore(|| {
        let world = World::new();
        let client = world.client(SLICE);
        let guard = acquire(&client);
        let drops = thread::spawn(move || drop(guard));
        world.close(client);
        drops.join().unwrap();
    });
}

#[test]
fn a_watcher_of_a_guard_that_goes_is_woken() {
    explore(|| {
        let world = World::new();
        let client = world.client(SLICE);
        let guard = acquire(&client);
        let lost = guard.lost();
        let watches = thread::spawn(move || block_on(lost));
        drop(guard);
        assert_eq!(watches.join().unwrap(), None);
        world.close(client);
    });
}
